"""Artifacts on disk and in one byte string: round trips, and every kind of damage."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from tests.runtime.standins import gemm_interface, scaled_interface
from wavespec.runtime import (
    ArtifactError,
    Assumption,
    Binary,
    Dim,
    KernelArtifact,
    TensorParameter,
    load_artifact,
    pack_artifact,
    save_artifact,
    unpack_artifact,
)

_BINARIES = (Binary("x86_64_v4", "vmfb", b"wide", ("avx512f",)), Binary("x86_64", "vmfb", b"plain"))
_GEMM = replace(
    gemm_interface(multiple_of=8),
    binaries=_BINARIES,
    shared_memory_bytes=65536,
    assumptions=(Assumption("K > 256", ("gt", "K", 256)),),
)


@pytest.mark.parametrize("artifact", [_GEMM, replace(scaled_interface(), binaries=_BINARIES)], ids=lambda a: a.name)
def test_round_trip(artifact: KernelArtifact, tmp_path: Path) -> None:
    files = save_artifact(artifact, tmp_path / "gemm.artifacts")
    assert [file.name for file in files] == ["cpu.x86_64_v4.vmfb", "cpu.x86_64.vmfb", "cpu.json"]
    assert load_artifact(files[-1]) == artifact
    assert unpack_artifact(pack_artifact(artifact)) == artifact


def test_saving_again_leaves_the_files_alone(tmp_path: Path) -> None:
    before = [file.stat().st_mtime_ns for file in save_artifact(_GEMM, tmp_path)]
    assert [file.stat().st_mtime_ns for file in save_artifact(_GEMM, tmp_path)] == before
    assert len(list(tmp_path.iterdir())) == 3


def test_damaged_binary_is_named(tmp_path: Path) -> None:
    manifest = save_artifact(_GEMM, tmp_path)[-1]
    (tmp_path / "cpu.x86_64.vmfb").write_bytes(b"plaim")
    with pytest.raises(ArtifactError, match=r"cpu\.json.*binary 'x86_64' does not have the sha256"):
        load_artifact(manifest)


def test_missing_binary_is_named(tmp_path: Path) -> None:
    manifest = save_artifact(_GEMM, tmp_path)[-1]
    (tmp_path / "cpu.x86_64.vmfb").unlink()
    with pytest.raises(ArtifactError, match=r"cpu\.x86_64\.vmfb"):
        load_artifact(manifest)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("format_version", 99),
        ("grid", ["M", 1]),
        ("grid", [["pow", 2, 3], 1, 1]),
        ("target", "../evil"),
        ("dims", []),
    ],
)
def test_manifest_that_does_not_fit_is_refused(field: str, value: object, tmp_path: Path) -> None:
    manifest = save_artifact(_GEMM, tmp_path)[-1]
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | {field: value}))
    with pytest.raises(ArtifactError):
        load_artifact(manifest)


@pytest.mark.parametrize("length", [0, 7, 16, 40, -1])
def test_truncated_pack_is_refused(length: int) -> None:
    with pytest.raises(ArtifactError):
        unpack_artifact(pack_artifact(_GEMM)[:length])


def test_manifest_has_no_paths_and_no_dates(tmp_path: Path) -> None:
    text = save_artifact(_GEMM, tmp_path)[-1].read_text()
    assert str(tmp_path) not in text and "20" not in {part[:2] for part in text.split('"') if part[:4].isdigit()}


_OUTPUT = TensorParameter("y", "f32", ("N",), output=True)


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"tensors": (_OUTPUT, TensorParameter("x", "f32", ("N",)))}, "inputs have to come before"),
        ({"tensors": (_OUTPUT,)}, "an input and an output"),
        ({"dims": (Dim("N"), Dim("N"))}, "dim names repeat"),
        ({"dims": (Dim("N"), Dim("K"))}, "a dynamic dim is in no input"),
        ({"grid": ("M", 1, 1)}, "undeclared dim"),
        ({"tensors": (TensorParameter("x", "f7", ("N",)), _OUTPUT)}, "unknown dtype"),
    ],
)
def test_artifact_without_a_meaning_is_refused(change: dict[str, object], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        replace(scaled_interface(), **change)  # type: ignore[arg-type]
