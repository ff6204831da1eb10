"""Mappings that only move a tile are boxes for the copy engine, loaded places included; what does more is left to lanes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

from tests.kernels import subjects
from tests.lower.gemms import NVIDIA
from tests.sim.planted_bugs import Bug, altered
from wavespec.ir.kernel import Kernel
from wavespec.ops.moved_writes import moved_in_pieces
from wavespec.pipeline import lower
from wavespec.schema import loads
from wavespec.schema.resolve import resolve_params
from wavespec.sim.simt import simulate

SPEC = """
apiVersion: wavespec/v1
kind: Kernel
name: moved
dims: {T: {}, M: {value: 70}, N: {multiple_of: 8}, K: {multiple_of: 8}, G: {}, S: {value: 250}}
tensors:
  x: {shape: [T, K], dtype: bf16, space: shared}
  w: {shape: [N, K], dtype: bf16, space: shared}
  starts: {shape: [G], dtype: i32}
  rows: {shape: [G, M], dtype: i32}
  y: {shape: [S, N], dtype: bf16, role: output}
constraints:
  - {workgroup: M, tile: 64, axis: 0}
  - {workgroup: N, tile: 64, axis: 1}
  - {workgroup: G, tile: 1, axis: 2}
  - {tiling: K, tile: 64}
  - {wave: M, tile: 64}
schedule: {stages: 3, waves: {producers: 1}, workgroups: {persistent: true}}
graph:
  - start: {read: starts}
  - row: {read: rows}
  - zero: {register: [G, M, N], dtype: f32, value: 0}
  - k_loop:
      iterate: K
      carry: {acc: zero}
      body:
        - x_tile: {read: x, dims: [G, M, K], at: {T: "READ"}}
        - w_tile: {read: w}
        - acc: {mma: [x_tile, w_tile, acc]}
  - result: {cast: k_loop.acc, dtype: bf16}
  - write: result
    to: y
    at: {S: "WRITTEN"}
"""
SIZES = {"T": 150, "M": 70, "N": 72, "K": 136, "G": 3, "S": 250}
STARTS = np.array([-3, 71, 100], np.int32)
PLACES: dict[str, Callable[[int, int], int]] = {
    "start + M": lambda group, m: int(STARTS[group]) + m,
    "start * 2 + M + 1": lambda group, m: int(STARTS[group]) * 2 + m + 1,
    "start + M * 2": lambda group, m: int(STARTS[group]) + m * 2,
    "M + max(M - start - 9, 0) * size(T)": lambda group, m: m + max(m - int(STARTS[group]) - 9, 0) * 150,
    "row": lambda group, m: 80 * group + (m * 3) % 70,
    "start + M // 32 * 34 + M % 32": lambda group, m: int(STARTS[group]) + m // 32 * 34 + m % 32,
    "start + M // 16 * 17 + M % 16": lambda group, m: int(STARTS[group]) + m // 16 * 17 + m % 16,
    "M // 16 * 17 + M % 16 + G * 80": lambda group, m: m // 16 * 17 + m % 16 + group * 80,
    "M // 16 * 17 + M % 16 + G * 80 + max(M - start, 0) * size(S)": lambda group, m: (
        m // 16 * 17 + m % 16 + group * 80 + max(m - int(STARTS[group]), 0) * 250
    ),
    "M // 4 * 5 + M % 4 + G * 88": lambda group, m: m // 4 * 5 + m % 4 + group * 88,
    "M + G * size(M)": lambda group, m: m + group * 70,
    "M + G * size(M) + max(M - start, 0) * size(S)": lambda group, m: (
        m + group * 70 + max(m - int(STARTS[group]), 0) * 250
    ),
}
FEW = replace(NVIDIA, processors=2)


def check(read: str, written: str, plant: Bug = lambda kernel: kernel) -> Kernel:
    """The kernel, whose results are right: what lies outside reads as 0, and is not written."""
    text = SPEC.replace("READ", read).replace("WRITTEN", written)
    if "row" not in (read, written):
        text = text.replace("  - row: {read: rows}\n", "").replace("  rows: {shape: [G, M], dtype: i32}\n", "")
    kernel, random = plant(lower(loads(text), FEW)), np.random.default_rng(0)
    x, w = (random.integers(-4, 5, (SIZES[rows], SIZES["K"])).astype(np.float64) for rows in ("T", "N"))
    right = np.zeros((SIZES["S"], SIZES["N"]))
    for group, m in np.ndindex(SIZES["G"], SIZES["M"]):
        source, target = (PLACES[place](group, m) for place in (read, written))
        if 0 <= target < SIZES["S"]:
            right[target] = x[source] @ w.T if 0 <= source < SIZES["T"] else 0
    inputs = {"x": x.astype(ml_dtypes.bfloat16), "w": w.astype(ml_dtypes.bfloat16), "starts": STARTS}
    if "row" in (read, written):
        inputs["rows"] = np.array(
            [[PLACES["row"](g, m) for m in range(SIZES["M"])] for g in range(SIZES["G"])], np.int32
        )
    report = simulate(kernel, FEW, inputs, SIZES)
    assert report.ok, report.render()
    assert np.array_equal(report.tensors["y"], right.astype(ml_dtypes.bfloat16))
    return kernel


@pytest.mark.parametrize(
    ("read", "by_box"),
    [
        ("start + M", True),
        ("start * 2 + M + 1", True),
        ("M + max(M - start - 9, 0) * size(T)", True),
        ("start + M * 2", False),
        ("row", False),
        ("start + M // 32 * 34 + M % 32", True),
        ("start + M // 16 * 17 + M % 16", False),  # boxes of few rows, in each step
    ],
)
def test_rows_at_loaded_places(read: str, by_box: bool) -> None:
    kernel = check(read, "M + G * size(M)")
    assert any(op.name == "bulk_copy" and op["source"] == "x" for op in kernel.walk()) == by_box
    assert any(op.name == "bulk_copy" and op["source"] == "w" for op in kernel.walk())


@pytest.mark.parametrize(
    ("written", "by_box"),
    [("M + G * size(M)", True), ("M + G * size(M) + max(M - start, 0) * size(S)", True), ("row", False)],
)
def test_rows_written_at_loaded_places(written: str, by_box: bool) -> None:
    kernel = check("start + M", written)
    assert any(op.name == "bulk_store" for op in kernel.walk()) == by_box
    assert any(op.name == "store" and op["memory"] == "y" for op in kernel.walk()), "partial tiles"


@pytest.mark.parametrize(
    ("written", "rows"),
    [
        ("M // 16 * 17 + M % 16 + G * 80", 16),
        ("M // 16 * 17 + M % 16 + G * 80 + max(M - start, 0) * size(S)", 16),
        ("M // 4 * 5 + M % 4 + G * 88", 0),  # boxes begin where a swizzle begins anew
    ],
)
def test_rows_that_are_written_in_pieces(written: str, rows: int) -> None:
    kernel = check("start + M", written)
    assert {op["box"][0] for op in kernel.walk() if op.name == "bulk_store"} == ({rows} if rows else set())
    assert any(op.name == "store" and op["memory"] == "y" for op in kernel.walk()), "partial tiles"


def test_tiles_that_begin_within_a_block_are_not_written_in_pieces() -> None:
    text = SPEC.replace("READ", "start + M").replace("WRITTEN", "M // 16 * 17 + M % 16 + G * 80")
    text = text.replace("  - row: {read: rows}\n", "").replace("  rows: {shape: [G, M], dtype: i32}\n", "")
    kernel = lower(loads(text), FEW, after="promote-shared")
    (write,) = (op for op in kernel.walk() if op.name == "write")
    for first, rows in ((0, 16), (32, 16), (8, 0)):
        later = write.with_(origin=tuple((dim, at + first if dim == "M" else at) for dim, at in write["origin"]))
        found = moved_in_pieces(later, kernel)
        assert (found.rows if found else 0) == rows


def test_pieces_in_another_order_show() -> None:
    other = altered("bulk_store", "offset", lambda offset: offset + 16 * 64)
    with pytest.raises(AssertionError):
        check("start + M", "M // 16 * 17 + M % 16 + G * 80", other)


def test_what_no_loop_copies_again_has_boxes_of_few_rows() -> None:
    """Queries of four heads, 16 tokens of each for a wave; keys and values are copied in each step."""
    (subject,) = (one for one in subjects("sm_90") if one.name == "attention_extend")
    cases = [case.spec for case in subject.cases("sm_90") if "H_by_4" in case.spec.dims]
    packed = next(spec for spec in cases if resolve_params(spec)["BLOCK_D"] == 128)
    kernel = lower(packed, FEW)
    boxes = {(op["source"], op["box"][0], op["box"][1]) for op in kernel.walk() if op.name == "bulk_copy"}
    assert boxes >= {("q", 16, 1), ("k", 128, 1)}
    assert {op["box"][:2] for op in kernel.walk() if op.name == "bulk_store"} == {(16, 1)}


def test_rows_that_a_mapping_leaves_out_are_zeros_whatever_is_there() -> None:
    kernel = check("M + max(M - start - 9, 0) * size(T)", "M + G * size(M)")
    (copy,) = {op.get("valid") for op in kernel.walk() if op.name == "bulk_copy" and op["source"] == "x"}
    assert copy is not None and [op.get("valid") for op in kernel.walk() if op.get("source") == "w"] == [None]


def test_a_row_too_many_shows() -> None:
    one_more = altered("bulk_copy", "valid", lambda rows: rows + 1, source="x")
    with pytest.raises(AssertionError):
        check("M + max(M - start - 9, 0) * size(T)", "M + G * size(M)", one_more)
