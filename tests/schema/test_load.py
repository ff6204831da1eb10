"""Files: what is read, how `extends` joins specs, and what no spec can reach."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.specs import KERNELS
from wavespec.diagnostics import WavespecError
from wavespec.schema import load, load_with_warnings, loads, resolve_params, spec_for_target
from wavespec.schema.resolve import targets_of

SPECS = Path(__file__).parents[2] / "specs"
MEASURED = sorted((Path(__file__).parents[2] / "benchmarks" / "specs").rglob("*.wave.yaml"))

SCALE = """\
apiVersion: wavespec/v1
kind: Kernel
name: move
dims:
  M: {}
params:
  BLOCK_M: 64
tensors:
  a: {shape: [M], dtype: f32}
  b: {shape: [M], dtype: f32, role: output}
constraints:
  - {workgroup: M, tile: BLOCK_M, axis: 0}
graph:
  - x: {read: a}
  - {write: x, to: b}
"""
CHILD = "apiVersion: wavespec/v1\nkind: Kernel\nextends: base.wave.yaml\nname: child\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with a spec to extend, and a secret beside it."""
    root = tmp_path / "project"
    (root / "specs").mkdir(parents=True)
    (root / "pyproject.toml").touch()
    (root / "specs" / "base.wave.yaml").write_text(SCALE)
    (tmp_path / "secret.wave.yaml").write_text("password: 1\n")
    return root / "specs"


def write(folder: Path, text: str, name: str = "child.wave.yaml") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def codes(path: Path) -> list[str]:
    with pytest.raises(WavespecError) as raised:
        load(path)
    return [diagnostic.code for diagnostic in raised.value.diagnostics]


@pytest.mark.parametrize("path", KERNELS, ids=lambda path: path.name)
def test_spec_of_the_project_is_clean_on_every_target(path: Path) -> None:
    spec, warnings = load_with_warnings(path)
    assert not warnings
    for target in targets_of(spec):
        assert all(value >= 0 for value in resolve_params(spec_for_target(spec, target)).values())


@pytest.mark.always
@pytest.mark.rare
@pytest.mark.parametrize("path", MEASURED, ids=lambda path: path.name)
def test_spec_of_a_benchmark_loads_as_what_it_extends_changes(path: Path) -> None:
    assert load(path).name == path.name.removesuffix(".wave.yaml")


def test_extends_takes_everything_that_is_not_written(project: Path) -> None:
    child = load(write(project, CHILD + "tensors:\n  a: {dtype: f16}\n  b: {dtype: f16}\n"))
    base = load(project / "base.wave.yaml")
    assert (child.name, child.tensors["a"].dtype) == ("child", "f16")
    assert (child.graph, child.constraints, child.dims) == (base.graph, base.constraints, base.dims)
    assert list(child.tensors) == ["a", "b"]


def test_extends_replaces_a_list_as_a_whole(project: Path) -> None:
    child = load(write(project, CHILD + "constraints:\n  - {workgroup: M, tile: 32, axis: 1}\n"))
    assert [str(getattr(constraint, "tile", "")) for constraint in child.constraints] == ["32"]


def test_extends_keeps_the_positions_of_both_files(project: Path) -> None:
    path = write(project, CHILD + "params: {BLOCK_M: 32}\n")
    child = load(path)
    base = os.path.normpath(path.parent / "base.wave.yaml")
    assert str(child.span_of("params", "BLOCK_M")) == f"{path}:5:19"
    assert str(child.graph[0].span) == f"{base}:14:8"


def test_extends_over_two_steps_and_folders(project: Path) -> None:
    (project / "more").mkdir()
    write(project, CHILD)
    path = write(project / "more", CHILD.replace("base", "../child").replace(": child", ": last"), "last.wave.yaml")
    assert load(path).name == "last"


def test_extends_in_a_text_starts_from_its_directory(project: Path) -> None:
    assert loads(CHILD, directory=project).name == "child"
    with pytest.raises(WavespecError, match="needs a file"):
        loads(CHILD)


def test_extends_of_itself_is_refused(project: Path) -> None:
    assert codes(write(project, CHILD.replace("base", "child"))) == ["extends-cycle"]


def test_extends_in_a_circle_is_refused(project: Path) -> None:
    write(project, CHILD.replace("base", "child"), "base.wave.yaml")
    assert codes(write(project, CHILD)) == ["extends-cycle"]


def test_extends_through_too_many_is_refused(project: Path) -> None:
    for index in range(12):
        write(project, CHILD.replace("base", f"s{index + 1}"), f"s{index}.wave.yaml")
    assert codes(project / "s0.wave.yaml") == ["extends-cycle"]


@pytest.mark.parametrize(
    "target",
    [
        "../../secret.wave.yaml",
        "/etc/secret.wave.yaml",
        "C:\\x.wave.yaml",
        "..\\..\\secret.wave.yaml",
        "file:///etc/x.wave.yaml",
        "https://example.org/x.wave.yaml",
        "~/x.wave.yaml",
        "/etc/passwd",
        "base.yaml",
        "link.wave.yaml",
        "linked/secret.wave.yaml",
    ],
)
def test_extends_cannot_leave_the_project(project: Path, target: str) -> None:
    (project / "link.wave.yaml").symlink_to(project.parent.parent / "secret.wave.yaml")
    (project / "linked").symlink_to(project.parent.parent)
    path = write(project, CHILD.replace("base.wave.yaml", f"'{target}'"))
    with pytest.raises(WavespecError) as raised:
        load(path)
    assert raised.value.diagnostics[0].code == "unsafe-path"
    assert "password" not in str(raised.value)


def test_extends_of_a_special_file_does_not_hang(project: Path) -> None:
    os.mkfifo(project / "pipe.wave.yaml")
    assert codes(write(project, CHILD.replace("base", "pipe"))) == ["unreadable-file"]


def test_extends_without_a_project_stays_in_its_folder(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    write(tmp_path, SCALE, "base.wave.yaml")
    path = write(tmp_path / "deep", CHILD.replace("base", "../base"))
    if any((parent / mark).exists() for parent in path.parents for mark in (".git", "pyproject.toml")):
        pytest.skip("the temporary folder is inside a project")
    assert codes(path) == ["unsafe-path"]


def test_unreadable_files(tmp_path: Path) -> None:
    assert codes(tmp_path / "none.wave.yaml") == ["unreadable-file"]
    assert codes(tmp_path) == ["unreadable-file"]
    (tmp_path / "latin.wave.yaml").write_bytes(b"name: \xe9")
    assert codes(tmp_path / "latin.wave.yaml") == ["unreadable-file"]
    (tmp_path / "big.wave.yaml").write_bytes(b"#" * (2**20 + 1))
    assert codes(tmp_path / "big.wave.yaml") == ["yaml-too-large"]


def test_extended_file_must_exist(project: Path) -> None:
    assert codes(write(project, CHILD.replace("base", "none"))) == ["unreadable-file"]


@pytest.mark.parametrize("text", ["[]", "3", "text", "- a", "{}", "a: 1"])
def test_what_is_no_spec_at_all(text: str) -> None:
    with pytest.raises(WavespecError):
        loads(text)


def test_warning_does_not_stop_a_spec(tmp_path: Path) -> None:
    path = write(tmp_path, SCALE.replace("  b:", "  c: {shape: [M], dtype: f32}\n  b:"))
    _, warnings = load_with_warnings(path)
    assert [warning.code for warning in warnings] == ["unused-tensor"]


def test_too_many_entries_are_counted() -> None:
    params = "".join(f"  P{number}: 1\n" for number in range(70))
    with pytest.raises(WavespecError, match="'params' is at most 64 entries long, not 71"):
        loads(SCALE.replace("params:\n", f"params:\n{params}"))


@pytest.mark.parametrize(
    ("old", "many", "field"),
    [
        ("params:\n", "params:\n" + "".join(f"  P{i}: P{i + 1}\n" for i in range(3000)) + "  P3000: 1\n", "params"),
        ("graph:\n", "graph:\n" + "".join(f"  - q{i}: x_tile + {i}\n" for i in range(2500)), "graph"),
    ],
)
def test_what_is_too_long_is_not_looked_at_further(old: str, many: str, field: str) -> None:
    """Parameters of parameters ended in a RecursionError, and statements took seconds before they were counted."""
    with pytest.raises(WavespecError) as raised:
        loads(SCALE.replace(old, many))
    (diagnostic,) = raised.value.diagnostics
    assert (diagnostic.code, f"'{field}' is at most" in diagnostic.message) == ("out-of-range", True)
