"""`wavespec generate`: the same bytes every time, stale files are found, nobody else's files are touched."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.command import SMALL, Command
from wavespec.generate import spec_sha256
from wavespec.schema import loads


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


def test_compiling_again_gives_the_same_bytes(
    wavespec: Command, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WAVESPEC_CACHE", "0")
    result = wavespec("generate", "--check")
    assert (result.code, result.err) == (0, "")


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
