"""Arithmetic around the loops moves down to its first use."""

from __future__ import annotations

from dataclasses import replace

from tests.lower.gemms import AMD, CPU, NVIDIA, Gemm
from tests.ops.epilogues import epilogue
from wavespec.ir.kernel import Kernel, Op
from wavespec.ir.thread_ops import LOAD, PURE
from wavespec.pipeline import lower
from wavespec.targets.machine import Machine

STAGE = "sink-arithmetic"
RESIDUAL = ("more_tile: {read: more}", "sum_f32: {add: [sums.acc, more_tile]}", "y: {cast: sum_f32, dtype: bf16}")


def lowered(machine: Machine, stage: str = STAGE) -> Kernel:
    tensors = "more: {shape: [M, N], dtype: f32}"
    tile, wave = ((64, 128, 32), (32, 128)) if machine.concurrent_waves else ((12, 32, 2), (12, 32))
    return lower(
        epilogue(*RESIDUAL, result="bf16", operands="bf16", tensors=tensors, tile=tile, wave=wave), machine, after=stage
    )


def behind_loop(kernel: Kernel) -> list[Op]:
    last = max(number for number, op in enumerate(kernel.body) if op.name == "for")
    return list(kernel.body[last + 1 :])


def test_what_nothing_needs_is_gone_and_all_else_is_there_once() -> None:
    before, after = lowered(NVIDIA, "tile-to-thread"), lowered(NVIDIA)
    effects = [op for op in after.body if not op.is_(PURE, LOAD)]
    assert effects == [op for op in before.body if not op.is_(PURE, LOAD)]
    used = {value.name for op in after.walk() for value in (*op.operands, *(op.region.yields if op.region else ()))}
    results = [op.result.name for op in after.body if op.is_(PURE)]
    assert set(results) <= used and len(results) == len(set(results))


def test_pieces_are_finished_one_after_the_other() -> None:
    names = [op.name for op in behind_loop(lowered(NVIDIA)) if op.name in ("elementwise", "cast")]
    assert names[:4] == ["elementwise", "cast", "elementwise", "cast"]


def test_stores_in_a_row_stay_so() -> None:
    names = [op.name for op in behind_loop(lowered(AMD))]
    first = names.index("store")
    assert set(names[first:]) == {"store"}


def test_loads_run_a_little_ahead_of_their_use() -> None:
    names = [op.name for op in behind_loop(lowered(NVIDIA)) if op.name in ("load", "elementwise")]
    loads = names.count("load")
    assert loads > names.index("elementwise") > 1, "some before the first use, not all"
    assert "load" not in names[-4:], "four elements each"


def test_loads_stay_where_one_lane_runs_alone() -> None:
    names = [op.name for op in behind_loop(lowered(CPU))]
    assert "load" not in names[names.index("elementwise") :]


def test_a_kernel_without_arithmetic_stays_as_it_was() -> None:
    kernel = Gemm(dims=("", "multiple_of: 64", "multiple_of: 8")).lowered(NVIDIA, "tile-to-thread")
    after = Gemm(dims=("", "multiple_of: 64", "multiple_of: 8")).lowered(NVIDIA, STAGE)
    moved = [op for op in after.body if op.name == "slice"]
    kept = [op for op in kernel.body if op.name != "slice"]
    assert replace(kernel, body=tuple(kept)) == replace(after, body=tuple(op for op in after.body if op not in moved))
