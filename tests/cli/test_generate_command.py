"""`wavespec generate`: the same bytes every time, stale files are found, nobody else's files are touched."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from tests.cli.command import SMALL, Command, Outcome
from wavespec.generate import spec_sha256
from wavespec.runtime.json_text import json_text
from wavespec.schema import loads
from wavespec.targets import machines


@pytest.fixture
def project(wavespec: Command, tmp_path: Path) -> Path:
    """A project with one generated spec, its files already written."""
    (tmp_path / "specs").mkdir()
    (tmp_path / "specs" / "small.wave.yaml").write_text(SMALL)
    assert wavespec("generate").code == 0
    return tmp_path


def test_generated_files_are_up_to_date_in_any_folder(
    wavespec: Command, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert wavespec("generate", "--check").code == 0
    monkeypatch.chdir(project.parent)
    assert wavespec("generate", "--check", "--root", project).code == 0


def test_generated_files_are_up_to_date_on_a_machine_of_another_architecture(
    wavespec: Command, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("wavespec.build_kernels.machines", machines.__wrapped__)  # which remembers nothing
    monkeypatch.setattr("wavespec.targets.machine.architecture", lambda: "aarch64")
    assert machines.__wrapped__("cpu") != machines("cpu")
    assert wavespec("generate", "--check").code == 0


@pytest.mark.rare
def test_compiling_again_gives_the_same_bytes(
    wavespec: Command, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WAVESPEC_CACHE", "0")
    result = wavespec("generate", "--check", "--code")
    assert (result.code, result.err) == (0, "")


def test_a_check_compiles_nothing(wavespec: Command, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WAVESPEC_CACHE_DIR", str(project / "cache"))
    for path in [*project.rglob("*.vmfb"), *project.rglob("*.ptx")]:
        path.unlink()
    assert wavespec("generate", "--check").code == 0
    parts = [path for path in (project / "cache").iterdir() if path.stat().st_size > 1000]
    assert all(b'"bytes": 0' in path.read_bytes() for path in parts) and parts


def test_a_check_finds_other_mlir(wavespec: Command, project: Path) -> None:
    """As after a change of a pass, which leaves the spec alone."""
    assert sorted(edited(project, "mlir_sha256")) == sorted(stale(wavespec("generate", "--check")))


def test_a_check_with_code_finds_other_code(wavespec: Command, project: Path) -> None:
    names = edited(project, "sha256")
    assert wavespec("generate", "--check").code == 0
    assert sorted(names) == sorted(stale(wavespec("generate", "--check", "--code")))


def test_a_damaged_manifest_is_stale(wavespec: Command, project: Path) -> None:
    (project / "generated" / "small.artifacts" / "cpu.json").write_text("{")
    assert stale(wavespec("generate", "--check")) == ["generated/small.artifacts/cpu.json"]


def test_binaries_of_a_deleted_spec_are_no_mistake_but_go(wavespec: Command, project: Path) -> None:
    orphan = project / "generated" / "old.artifacts" / "cpu.x86_64_v3.vmfb"
    orphan.parent.mkdir()
    orphan.write_bytes(b"code")
    assert wavespec("generate", "--check").code == 0
    assert wavespec("generate").code == 0 and not orphan.exists()


def edited(project: Path, field: str) -> list[str]:
    """Have every binary another sha256; returns the manifests."""
    names: list[str] = []
    for path in (project / "generated").rglob("*.json"):
        record = json.loads(path.read_text())
        del record["sha256"]
        for binary in record["binaries"]:
            binary[field] = "0" * 64
        text = json.dumps(record, sort_keys=True, separators=(",", ":"))
        path.write_text(json_text({**record, "sha256": hashlib.sha256(text.encode()).hexdigest()}) + "\n")
        names.append(path.relative_to(project).as_posix())
    assert names
    return names


def stale(result: Outcome) -> list[str]:
    """What `--check` calls different."""
    assert result.code == 1
    return [line.removesuffix(": differs") for line in result.err.splitlines() if line.endswith(": differs")]


def test_a_changed_spec_makes_its_files_stale(wavespec: Command, project: Path) -> None:
    spec = project / "specs" / "small.wave.yaml"
    spec.write_text(SMALL.replace("multiple_of: 8", "multiple_of: 16"))
    result = wavespec("generate", "--check")
    assert result.code == 1
    assert "generated/small.py: differs" in result.err
    assert "run 'wavespec generate'" in result.err


def test_a_comment_does_not_make_files_stale(wavespec: Command, project: Path) -> None:
    (project / "specs" / "small.wave.yaml").write_text("# A comment.\n" + SMALL)
    assert wavespec("generate", "--check").code == 0


def test_files_of_a_deleted_spec_go(wavespec: Command, project: Path) -> None:
    orphan = project / "generated" / "old.artifacts" / "cpu.json"
    orphan.parent.mkdir()
    orphan.write_text("{}")
    assert "generated/old.artifacts/cpu.json: no spec makes it" in wavespec("generate", "--check").err
    assert wavespec("generate").code == 0
    assert not orphan.exists()


def test_a_folder_without_specs_is_bad_input(wavespec: Command, tmp_path: Path) -> None:
    result = wavespec("generate", "--root", tmp_path)
    assert result.code == 2
    assert "error[no-specs]" in result.err


def test_the_hash_is_of_the_meaning() -> None:
    assert spec_sha256(loads(SMALL)) == spec_sha256(loads("# comment\n" + SMALL))
    assert spec_sha256(loads(SMALL)) != spec_sha256(loads(SMALL.replace("name: small", "name: smaller")))
