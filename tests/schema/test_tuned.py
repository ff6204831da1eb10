"""Tuned settings beside a spec: merged as its first cases, checked at their own lines."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.command import SMALL
from wavespec.diagnostics import WavespecError
from wavespec.schema import KernelSpec, load, loads
from wavespec.schema.cases import cases_for_target
from wavespec.schema.load import is_tuned_file, load_tuned
from wavespec.schema.reading.spec_to_yaml import dump_yaml
from wavespec.schema.reading.tuned import tuned_path
from wavespec.schema.reading.yaml_source import yaml_to_nodes
from wavespec.schema.reading.yaml_to_spec import nodes_to_tuned

HEAD = "apiVersion: wavespec/v1\nkind: Tuned\nkernel: small\ntargets:\n  cpu:\n"
ENTRY = """\
    - when: [M <= 64]
      params: {BLOCK_M: 48}
      schedule: {stages: 1}
      measured:
        machine: a machine
        timings:
          - {sizes: {M: 40, N: 24, K: 64}, tuned: 12.5, untuned: 20, torch: 30.25}
"""
OWN_CASE = "  cpu: {params: {BLOCK_M: 24}, cases: [{when: [M <= 64], params: {BLOCK_M: 12}}]}\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "small.wave.yaml").write_text(SMALL.replace("  cpu: {params: {BLOCK_M: 24}}\n", OWN_CASE))
    (tmp_path / "small.tuned.yaml").write_text(HEAD + ENTRY)
    return tmp_path


def blocks(spec: KernelSpec) -> list[str]:
    return [str(case.spec.params["BLOCK_M"]) for case in cases_for_target(spec, "cpu")]


def test_tuned_cases_come_before_those_of_the_spec(project: Path) -> None:
    assert blocks(load(project / "small.wave.yaml")) == ["48", "12", "24"]


def test_spec_without_the_file_is_as_before(project: Path) -> None:
    (project / "small.tuned.yaml").unlink()
    assert blocks(load(project / "small.wave.yaml")) == ["12", "24"]


def test_text_of_a_folder_has_the_cases_of_the_folder(project: Path) -> None:
    text = (project / "small.wave.yaml").read_text()
    assert blocks(loads(text, "specs/small.wave.yaml", project)) == ["48", "12", "24"]
    assert blocks(loads(text, "specs/small.wave.yaml")) == ["12", "24"]


def test_figures_change_nothing_that_is_built(project: Path) -> None:
    before = load(project / "small.wave.yaml")
    (project / "small.tuned.yaml").write_text(HEAD + ENTRY.replace("12.5", "11.5"))
    assert dump_yaml(load(project / "small.wave.yaml")) == dump_yaml(before)


def test_spec_that_extends_this_one_has_settings_of_its_own(project: Path) -> None:
    other = project / "other.wave.yaml"
    other.write_text("apiVersion: wavespec/v1\nkind: Kernel\nextends: small.wave.yaml\nname: other\n")
    assert blocks(load(other)) == ["12", "24"]


def test_written_file_reads_back() -> None:
    tuned, errors = nodes_to_tuned(yaml_to_nodes(HEAD + ENTRY, "small.tuned.yaml")[0])
    assert tuned is not None and not errors
    assert nodes_to_tuned(yaml_to_nodes(dump_yaml(tuned), "small.tuned.yaml")[0]) == (tuned, ())


@pytest.mark.parametrize(
    ("old", "new", "code", "line"),
    [
        ("kernel: small", "kernel: big", "tuned-for-another", 3),
        ("kind: Tuned", "kind: Kernel", "unknown-value", 2),
        ("M <= 64", "L <= 64", "undefined-name", 6),
        ("BLOCK_M: 48", "BLOK: 48", "undefined-name", 7),
        ("params: {BLOCK_M: 48}", "params: {BLOCK_M: 0}", "tile-out-of-range", 7),
        ("tuned: 12.5", "tuned: fast", "wrong-type", 12),
        ("tuned: 12.5", "tuned: -1", "out-of-range", 12),
        ("machine: a machine", "chip: a machine", "unknown-field", 10),
        ("cpu:", "tpu:", "unknown-target", 5),
    ],
)
def test_mistake_is_at_the_line_of_the_tuned_file(project: Path, old: str, new: str, code: str, line: int) -> None:
    (project / "small.tuned.yaml").write_text((HEAD + ENTRY).replace(old, new))
    with pytest.raises(WavespecError, match=rf"small\.tuned\.yaml:{line}:[0-9]+: error\[{code}\]"):
        load(project / "small.wave.yaml")


def test_case_behind_a_wider_tuned_one_is_a_mistake(project: Path) -> None:
    (project / "small.tuned.yaml").write_text(HEAD + ENTRY + ENTRY.replace("64]", "32]"))
    with pytest.raises(WavespecError, match=r"small\.tuned\.yaml:13:[0-9]+: error\[unreachable-case\]"):
        load(project / "small.wave.yaml")


def test_file_is_known_by_its_name_or_its_kind(project: Path) -> None:
    assert is_tuned_file(project / "small.tuned.yaml") and not is_tuned_file(project / "small.wave.yaml")
    (project / "small.tuned.yaml").rename(project / "best.yaml")
    assert is_tuned_file(project / "best.yaml") and not is_tuned_file(project / "missing.yaml")


def test_settings_are_checked_as_cases_of_the_spec_beside_them(project: Path) -> None:
    spec, tuned = load_tuned(project / "small.tuned.yaml")
    assert (blocks(spec), list(tuned.targets)) == (["48", "24"], ["cpu"])


@pytest.mark.parametrize(("name", "words"), [("big.tuned.yaml", "no 'big.wave.yaml'"), ("best.yaml", "to no spec")])
def test_settings_without_a_spec_are_a_mistake(project: Path, name: str, words: str) -> None:
    (project / "small.tuned.yaml").rename(project / name)
    with pytest.raises(WavespecError, match=rf"{name}:3:9: error\[tuned-without-spec\]: .*{words}"):
        load_tuned(project / name)


def test_settings_are_no_spec(project: Path) -> None:
    with pytest.raises(WavespecError) as caught:
        load(project / "small.tuned.yaml")
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.code == "tuned-as-spec" and "'small.wave.yaml'" in diagnostic.hints[0]


def test_only_specs_have_a_tuned_file() -> None:
    assert tuned_path(Path("a/b.wave.yaml")) == Path("a/b.tuned.yaml") and tuned_path(Path("a/b.yaml")) is None
