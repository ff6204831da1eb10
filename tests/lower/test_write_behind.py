"""Sums of tile registers are written while the products of the next tile are made."""

from __future__ import annotations

import pytest

from tests.lower.gemms import Gemm, run
from wavespec.ir.kernel import Kernel, Op
from wavespec.ir.thread_ops import ACCUMULATE, FOR, LOAD, MMA, PREFETCH, STORE
from wavespec.lower.write_behind import WriteBehind
from wavespec.pipeline import lower
from wavespec.targets.machine import machines

AMX = machines("cpu")[0]
TILE = (64, 96, 512)


def gemm(dtype: str = "bf16", mma: str = "amx_bf16_32x32x32", tile: tuple[int, int, int] = TILE) -> Gemm:
    return Gemm(dtype, tile, wave=(None, None), mma=mma, dims=("", "", "multiple_of: 16"))


def lowered(given: Gemm, after: str = "") -> Kernel:
    return lower(given.spec, AMX, after=after)


def loops_that_write(kernel: Kernel) -> list[Op]:
    return [op for op in kernel.walk() if op.is_(FOR) and any(one.is_(ACCUMULATE) for one in op.body.ops)]


def test_rows_are_written_beside_products_then_those_left_then_the_last_tile() -> None:
    kernel = lowered(gemm())
    beside, behind, last = loops_that_write(kernel)
    (products,) = (op for op in kernel.walk() if op.is_(FOR) and any(one.is_(MMA) for one in op.body.ops))
    assert beside in products.body.ops
    assert behind not in products.body.ops
    assert "min(wave_N, 1)*32" in str(beside["upper"]), "nothing waits in the first turn"
    assert str(last["upper"]).endswith("*32")
    for loop in (beside, behind, last):
        assert len(loop.body.ops) == 4, "two vectors of a row"


@pytest.mark.parametrize(("depth", "rows"), [(512, 2), (256, 4), (1024, 2)])
def test_steps_are_enough_for_all_rows(depth: int, rows: int) -> None:
    beside, *_ = loops_that_write(lowered(gemm(tile=(64, 96, depth))))
    assert f"(in_K//32)*{rows} + {rows}" in str(beside["upper"])
    assert depth // 32 * rows >= 32


def test_sums_wait_in_a_memory_and_need_no_announcement() -> None:
    before, kernel = lowered(gemm(), after="spread-announcements"), lowered(gemm())
    (sums,) = (memory for memory in kernel.memories if memory.name == "sums")
    assert (sums.space, str(sums.shape[0]), sums.dtype.name) == ("private", "1024", "f32")
    assert any(op.is_(PREFETCH) and op["memory"] == "c" for op in before.walk())
    assert not any(op.is_(PREFETCH) and op["memory"] == "c" for op in kernel.walk())
    assert {op.name for op in kernel.walk() if op.get("memory") == "sums"} == {LOAD.name, STORE.name}


def test_bytes_are_written_likewise() -> None:
    kernel = lowered(gemm("i8", "amx_i8_32x32x64", (64, 96, 1024)))
    assert len(loops_that_write(kernel)) == 3


@pytest.mark.parametrize("mma", ["fma_f32_12x32x1"])
def test_sums_of_vector_registers_are_written_as_they_were(mma: str) -> None:
    kernel = lowered(gemm(mma=mma), after="spread-announcements")
    assert WriteBehind()(kernel, AMX) is kernel


@pytest.mark.parametrize("sizes", [(70, 100, 80), (64, 32, 16), (33, 97, 1040)])
def test_all_rows_are_written(sizes: tuple[int, int, int]) -> None:
    given = gemm(tile=(64, 96, 64))
    report, expected = run(given.spec, AMX, dict(zip("MNK", sizes, strict=True)))
    assert report.ok, report.render()
    assert (report.tensors["c"] == expected).all()
