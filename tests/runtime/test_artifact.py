"""Artifacts on disk and in one byte string: round trips, and every kind of damage."""

from __future__ import annotations

import contextlib
import copy
import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
import torch

from tests.runtime.standins import gemm_interface, scaled_interface
from wavespec.runtime import (
    ArtifactCase,
    ArtifactError,
    Assumption,
    Binary,
    Dim,
    KernelArtifact,
    TensorMap,
    TensorParameter,
    load_artifact,
    pack_artifact,
    save_artifact,
    unpack_artifact,
)
from wavespec.runtime.artifact import Window
from wavespec.runtime.checks import ArgumentError, check_inputs
from wavespec.runtime.launch_plan import make_plan
from wavespec.runtime.size_expr import SizeExpr

_BINARIES = (Binary("x86_64_v4", "vmfb", b"wide", ("avx512f",)), Binary("x86_64", "vmfb", b"plain"))
_GEMM = replace(
    gemm_interface(multiple_of=8),
    binaries=_BINARIES,
    shared_memory_bytes=65536,
    assumptions=(Assumption("K > 256", ("gt", "K", 256)),),
)


_FEW = ArtifactCase(
    (Assumption("M <= 64", ("le", "M", 64)), Assumption("K % 64 == 0", ("eq", ("mod", "K", 64), 0))),
    replace(
        _GEMM,
        dims=(Dim("M"), Dim("N"), Dim("K", multiple_of=64)),
        grid=(("ceildiv", "N", 8), 1, 1),
        workgroup_size=(128, 1, 1),
        tensor_maps=(TensorMap("a", (64, 64), 128, ended=0), TensorMap("b", (8,), view=(("mul", "N", "K"),))),
        binaries=(Binary("x86_64", "vmfb", b"few"),),
        waits=True,
    ),
)
_ROW = ArtifactCase(
    (Assumption("M == 1", ("eq", "M", 1)),), replace(_GEMM, dims=(Dim("M", size=1), Dim("N"), Dim("K", multiple_of=8)))
)
_CASES = replace(_GEMM, cases=(_ROW, _FEW))


_LARGE: SizeExpr = ("mul", ("ceildiv", ("add", "M", 63), 128), ("ceildiv", ("mul", "N", "K"), 256))
_MANY = replace(
    _GEMM,
    cases=tuple(
        replace(
            _FEW,
            conditions=tuple(Assumption(f"{n} tiles", ("le", ("mod", _LARGE, 132), m)) for m in range(n, n + 9)),
            kernel=replace(_FEW.kernel, grid=(("mod", _LARGE, 132), _LARGE, 1)),
        )
        for n in range(12)
    ),
)
"""With expressions that are said over and over."""


def in_memory(artifact: KernelArtifact) -> KernelArtifact:
    """The same, with its machine code read."""
    return unpack_artifact(pack_artifact(artifact))


def test_a_manifest_names_what_its_expressions_share_and_those_without_such_stay_as_they_were(tmp_path: Path) -> None:
    text = save_artifact(_MANY, tmp_path)[-1].read_text()
    assert json.loads(text)["format_version"] == 5
    assert text.count(json.dumps(["ceildiv", ["add", "M", 63], 128])) == 1
    assert in_memory(load_artifact(tmp_path / "cpu.json")) == in_memory(_MANY)
    assert json.loads(save_artifact(_CASES, tmp_path)[-1].read_text())["format_version"] == 4


def test_round_trip_with_cases(tmp_path: Path) -> None:
    files = save_artifact(_CASES, tmp_path)
    assert [file.name for file in files] == [
        "cpu.case0.x86_64_v4.vmfb",
        "cpu.case0.x86_64.vmfb",
        "cpu.case1.x86_64.vmfb",
        "cpu.x86_64_v4.vmfb",
        "cpu.x86_64.vmfb",
        "cpu.json",
    ]
    assert in_memory(load_artifact(files[-1])) == _CASES
    assert unpack_artifact(pack_artifact(_CASES)) == _CASES


@pytest.mark.parametrize(
    ("sizes", "member"),
    [((1, 8, 64), 0), ((1, 8, 8), 0), ((64, 8, 64), 1), ((64, 8, 72), 2), ((65, 8, 64), 2), ((0, 0, 0), 1)],
)
def test_plan_takes_the_first_case_that_fits(sizes: tuple[int, int, int], member: int) -> None:
    plan = make_plan(_CASES, dict(zip("MNK", sizes, strict=True)))
    assert plan.member == member
    assert plan.constants == (sizes[1:] if member == 0 else sizes)  # the row has M compiled in
    assert plan.grid[0] == -(-sizes[1] // 8) if member == 1 else -(-sizes[0] // 4)


_IMAGES = TensorParameter("images", "f32", ("M", "N", "K"))
_CONVOLUTION = replace(
    _GEMM,
    name="convolution",
    tensors=(_IMAGES, *_GEMM.tensors[1:]),
    tensor_maps=(TensorMap("images", (128, 32), 128, windows=(Window(-1, 2, ("ceildiv", "N", 2)),)),),
    assumptions=(Assumption("windows in reach", ("le", "N", 255), of_machine=True),),
)


@pytest.mark.parametrize(
    "artifact", [_GEMM, _CONVOLUTION, replace(scaled_interface(), binaries=_BINARIES)], ids=lambda a: a.name
)
def test_round_trip(artifact: KernelArtifact, tmp_path: Path) -> None:
    files = save_artifact(artifact, tmp_path / "gemm.artifacts")
    assert [file.name for file in files] == ["cpu.x86_64_v4.vmfb", "cpu.x86_64.vmfb", "cpu.json"]
    assert in_memory(load_artifact(files[-1])) == artifact
    assert unpack_artifact(pack_artifact(artifact)) == artifact


def test_saving_again_leaves_the_files_alone(tmp_path: Path) -> None:
    before = [file.stat().st_mtime_ns for file in save_artifact(_GEMM, tmp_path)]
    assert [file.stat().st_mtime_ns for file in save_artifact(_GEMM, tmp_path)] == before
    assert len(list(tmp_path.iterdir())) == 3


def test_damaged_binary_is_named(tmp_path: Path) -> None:
    manifest = save_artifact(_GEMM, tmp_path)[-1]
    (tmp_path / "cpu.x86_64.vmfb").write_bytes(b"plaim")
    with pytest.raises(ArtifactError, match=r"gemm: cpu\.x86_64\.vmfb has other bytes than its manifest says"):
        in_memory(load_artifact(manifest))


def test_missing_binary_is_named(tmp_path: Path) -> None:
    manifest = save_artifact(_GEMM, tmp_path)[-1]
    (tmp_path / "cpu.x86_64.vmfb").unlink()
    with pytest.raises(ArtifactError, match=r"cpu\.x86_64\.vmfb is missing"):
        in_memory(load_artifact(manifest))


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
    with pytest.raises(ArtifactError, match=r"cpu\.json: (it was changed since it was built|format version 99)"):
        load_artifact(manifest)


_OTHERS: tuple[Any, ...] = (None, {}, [], [[]], "M", "", -1, 0, 2.5, 1 << 70, True, [1, 2], [["x"], 1, 2], {"x": 1})


def _places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where there is something inside of JSON values."""
    entries: list[tuple[Any, Any]] = []
    if isinstance(value, dict):
        entries += cast(dict[str, Any], value).items()
    elif isinstance(value, list):
        entries += enumerate(cast(list[Any], value))
    for key, inner in entries:
        yield (*at, key)
        yield from _places(inner, (*at, key))


def _inside(value: Any, at: tuple[Any, ...]) -> Any:
    for key in at:
        value = value[key]
    return value


def test_a_manifest_with_a_new_sum_is_refused_by_name_or_works(tmp_path: Path) -> None:
    """Every field is left out, and has other values: what can be loaded can be called."""
    equal = replace(_CASES, dims=(Dim("M"), Dim("N", equals=("mul", "M", 2)), Dim("K", multiple_of=8)))
    manifest = save_artifact(equal, tmp_path)[-1]
    whole = json.loads(manifest.read_text())
    del whole["sha256"]
    missing = object()
    refused: list[str] = []
    for at in _places(whole):
        for other in (missing, *_OTHERS):
            edited = copy.deepcopy(whole)
            inner = _inside(edited, at[:-1])
            if other is missing:
                del inner[at[-1]]
            else:
                inner[at[-1]] = other
            text = json.dumps(edited, sort_keys=True, separators=(",", ":"))
            manifest.write_text(json.dumps({**edited, "sha256": hashlib.sha256(text.encode()).hexdigest()}))
            try:
                loaded = load_artifact(manifest)
            except ArtifactError as error:
                refused.append(str(error))
                continue
            with contextlib.suppress(ArgumentError, ArithmeticError):
                inputs = [torch.zeros(shape) for shape in ((8, 8), (16, 8))]
                make_plan(loaded, check_inputs(loaded, inputs))
    assert "cpu.json: there is no entry_point; build it again." in refused
    assert "cpu.json: binaries[0].sha256 is 'M', expected 64 hex digits; build it again." in refused
    assert (
        "cpu.json: cases[1].dims[2].multiple_of is True, expected a whole number of at least 1; build it again."
        in refused
    )


def test_every_edit_of_a_manifest_is_noticed(tmp_path: Path) -> None:
    manifest = save_artifact(_GEMM, tmp_path)[-1]
    whole = json.loads(manifest.read_text())

    for at in _places(whole):
        for other in _OTHERS:
            edited = copy.deepcopy(whole)
            inner = _inside(edited, at[:-1])
            if json.dumps(inner[at[-1]]) == json.dumps(other):
                continue
            inner[at[-1]] = other
            manifest.write_text(json.dumps(edited))
            with pytest.raises(ArtifactError):
                load_artifact(manifest)


@pytest.mark.parametrize("text", [b"", b"[]", b"null", b"{}", b"\xff\xfe", b"[" * 100_000, b'{"format_version": 4}'])
def test_what_is_no_manifest_is_refused(text: bytes, tmp_path: Path) -> None:
    manifest = save_artifact(_GEMM, tmp_path)[-1]
    manifest.write_bytes(text)
    with pytest.raises(ArtifactError, match=r"cpu\.json: "):
        load_artifact(manifest)


@pytest.mark.parametrize("name", ["cpu.json", "cpu.x86_64.vmfb"])
def test_a_fifo_or_a_folder_in_place_of_a_file_is_refused(name: str, tmp_path: Path) -> None:
    manifest = save_artifact(_GEMM, tmp_path)[-1]
    for make, remove in ((os.mkfifo, os.unlink), (os.mkdir, os.rmdir)):
        (tmp_path / name).unlink()
        make(tmp_path / name)
        with pytest.raises(ArtifactError, match=name.split(".")[0]):
            in_memory(load_artifact(manifest))
        remove(tmp_path / name)
        save_artifact(_GEMM, tmp_path)


@pytest.mark.parametrize("length", [0, 7, 16, 40, -1])
def test_truncated_pack_is_refused(length: int) -> None:
    with pytest.raises(ArtifactError):
        unpack_artifact(pack_artifact(_GEMM)[:length])


def test_manifest_has_no_paths_and_no_dates(tmp_path: Path) -> None:
    text = save_artifact(_GEMM, tmp_path)[-1].read_text()
    assert str(tmp_path) not in text and "20" not in {part[:2] for part in text.split('"') if part[:4].isdigit()}


_OUTPUT = TensorParameter("y", "f32", ("N",), output=True)
_NESTED = ArtifactCase((), scaled_interface())


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"tensors": (_OUTPUT, TensorParameter("x", "f32", ("N",)))}, "inputs have to come before"),
        ({"tensors": (_OUTPUT,)}, "an input and an output"),
        ({"dims": (Dim("N"), Dim("N"))}, "dim names repeat"),
        ({"dims": (Dim("N"), Dim("K"))}, "a dynamic dim is in no input"),
        ({"grid": ("M", 1, 1)}, "undeclared dim"),
        ({"tensors": (TensorParameter("x", "f7", ("N",)), _OUTPUT)}, "unknown dtype"),
        ({"tensor_maps": (TensorMap("x", (8, 8)),)}, "a tensor map is of no tensor"),
        ({"tensor_maps": (TensorMap("x", (8,), ended=1),)}, "a tensor map is of no tensor"),
        ({"tensor_maps": (TensorMap("x", (8,), view=("N", 2)),)}, "a tensor map is of no tensor"),
        ({"tensor_maps": (TensorMap("x", (8, 8), windows=(Window(0, 1, "N"),)),)}, "a tensor map is of no tensor"),
        ({"tensor_maps": (TensorMap("x", (8,), view=("M",)),)}, "undeclared dim"),
        ({"cases": (replace(_FEW, conditions=()),)}, "a case is of another kernel"),
        ({"cases": (ArtifactCase((Assumption("M", "M"),), scaled_interface()),)}, "undeclared dim"),
        ({"cases": (ArtifactCase((), replace(scaled_interface(), cases=(_NESTED,))),)}, "a case has cases"),
    ],
)
def test_artifact_without_a_meaning_is_refused(change: dict[str, object], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        replace(scaled_interface(), **change)  # type: ignore[arg-type]
