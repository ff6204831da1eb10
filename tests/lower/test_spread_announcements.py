"""What products announce is announced a row at a time: results in memory, and rows of the next tile."""

from __future__ import annotations

import pytest

from tests.lower.gemms import CPU, Gemm
from wavespec.ir.kernel import Kernel, Op
from wavespec.ir.thread_ops import ACCUMULATE, FOR, MMA, PREFETCH
from wavespec.lower.store_at_once import StoreAtOnce
from wavespec.pipeline import lower

TILE = (24, 64, 64)


def lowered(dtype: str = "f32", mma: str = "fma_f32_12x32x1", tile: tuple[int, int, int] = TILE) -> Kernel:
    return lower(Gemm(dtype, tile, wave=(None, None), mma=mma).spec, CPU)


def loops_of_products(kernel: Kernel) -> list[Op]:
    return [op for op in kernel.walk() if op.is_(FOR) and any(one.is_(MMA) for one in op.body.ops)]


def announcements(kernel: Kernel) -> list[Op]:
    return [op for op in kernel.walk() if op.is_(FOR) and any(one.is_(PREFETCH) for one in op.body.ops)]


def test_rows_of_results_and_of_the_next_tile_are_announced_between_steps_of_products() -> None:
    kernel = lowered()
    before, beside = announcements(kernel)
    assert not any(op.is_(MMA) for op in before.walk())
    assert any(op.is_(MMA) for op in beside.walk())
    for loop in (before, beside):
        assert {op["memory"] for op in loop.body.ops if op.is_(PREFETCH)} == {"a", "c"}
    assert str(before["lower"]) == str(beside["upper"])  # each row once
    assert str(before["upper"]) == "12"


def test_all_steps_of_products_are_made_once() -> None:
    first, rest = loops_of_products(lowered())
    assert str(first["lower"]) == "0"
    assert str(first["upper"]) == "8"
    assert "*8" in str(rest["lower"])


@pytest.mark.parametrize("mma", ["inner_f32_4x6x16"])
def test_products_that_are_added_up_at_the_end_of_a_loop_are_not_cut(mma: str) -> None:
    kernel = lowered(mma=mma, tile=(8, 24, 64))
    assert len(loops_of_products(kernel)) == 1
    assert not announcements(kernel)


def test_sums_of_one_loop_stay_where_they_are() -> None:
    kernel = lowered()
    assert StoreAtOnce()(kernel, CPU) is kernel
    assert any(op.is_(ACCUMULATE) for op in kernel.walk())
