"""`wavespec build`: what it leaves on disk, and that it is all or nothing."""

from __future__ import annotations

import importlib.util
import inspect
import json
from pathlib import Path

import pytest

from tests.cli.command import SMALL, Command
from wavespec.emit import targets


def test_wrapper_and_kernels_are_written(wavespec: Command, small: Path) -> None:
    result = wavespec("build", small, "--target", "gfx942", "--target", "sm_90", "-o", "out")
    assert (result.code, result.err) == (0, "")
    names = {path.relative_to("out").as_posix() for path in Path("out").rglob("*") if path.is_file()}
    assert {
        "small.py",
        "small.artifacts/gfx942.json",
        "small.artifacts/sm_90.json",
        "small.artifacts/sm_90.ptx",
    } < names
    assert {Path(name).suffix for name in names} >= {".vmfb", ".ptx"}
    assert all(name in result.out for name in names)
    specification = importlib.util.spec_from_file_location("small_wrapper", "out/small.py")
    assert specification and specification.loader
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    assert "Returns:\n    c: float32 [M, N]." in (inspect.getdoc(module.small) or "")


@pytest.mark.compiles
def test_a_second_build_changes_nothing(wavespec: Command, small: Path) -> None:
    wavespec("build", small, "--target", "gfx942", "-o", "out")
    before = {path: path.stat().st_mtime_ns for path in Path("out").rglob("*")}
    result = wavespec("build", small, "--target", "gfx942", "-o", "out", "--json")
    assert result.data["ok"] is True
    assert not any(file["changed"] for file in result.data["files"])
    assert {path: path.stat().st_mtime_ns for path in Path("out").rglob("*")} == before


@pytest.mark.compiles
def test_isa_is_written_beside_the_binary(wavespec: Command, small: Path) -> None:
    assert wavespec("build", small, "--target", "gfx942", "-o", "out", "--isa").code == 0
    assert "v_mfma_f32_" in Path("out/small.artifacts/gfx942.s").read_text()
    assert json.loads(Path("out/small.artifacts/gfx942.json").read_text())["target"] == "gfx942"


def test_nothing_is_written_where_one_target_fails(wavespec: Command, small: Path) -> None:
    small.write_text(SMALL.replace("targets:\n", "targets:\n  gfx950: {hardware: {mma: no_such_instruction}}\n"))
    result = wavespec("build", small, "--target", "gfx942", "--target", "gfx950", "-o", "out", "--json")
    assert result.code == 2
    assert result.data["diagnostics"][0]["code"] == "unknown-matrix-instruction"
    assert not Path("out").exists()


def test_a_file_of_somebody_else_is_not_overwritten(wavespec: Command, small: Path) -> None:
    Path("out").mkdir()
    Path("out/small.py").write_text("print('mine')\n")
    result = wavespec("build", small, "--target", "gfx942", "-o", "out")
    assert result.code == 2
    assert "error[not-generated]" in result.err
    assert [path.name for path in Path("out").iterdir()] == ["small.py"]


def test_a_folder_that_cannot_be_written_is_a_message(wavespec: Command, small: Path) -> None:
    Path("file").write_text("")
    result = wavespec("build", small, "--target", "gfx942", "-o", "file/out")
    assert result.code == 2
    assert "error[file-error]" in result.err


def test_a_bug_is_reported_as_one(wavespec: Command, small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise IndexError("tuple index out of range")

    monkeypatch.setattr(targets, "thread_to_mlir", broken)
    monkeypatch.setenv("WAVESPEC_CACHE", "0")
    result = wavespec("build", small, "--target", "cpu:x86_64_v3", "-o", "out")  # one part, built in this process
    assert result.code == 1
    assert result.err.startswith(
        "error[internal-error]: IndexError: tuple index out of range (wavespec/emit/targets.py:"
    )
    assert "This is a bug in wavespec, not in your spec." in result.err


def test_output_is_required(wavespec: Command, small: Path) -> None:
    result = wavespec("build", small)
    assert result.code == 2
    assert "'--output'" in result.err
