"""Columns of a product in tile registers that are decoded: once for all rows of a tile, with nothing to check."""

from __future__ import annotations

from functools import lru_cache

import pytest

from tests.kernels import subjects
from wavespec.ir.kernel import Kernel, Op
from wavespec.ir.thread_ops import FOR, LOAD, LOAD_TILE, MMA, PREFETCH
from wavespec.pipeline import lower
from wavespec.targets.machine import machines

(AMX,) = (machine for machine in machines("cpu") if machine.variant == "x86_64_amx")
DECODED = {"linear_i4_bf16": "w", "matmul_mxf4": "b", "matmul_mxf8": "b", "matmul_f8_blocks": "b"}


@lru_cache
def lowered(name: str) -> Kernel:
    """Of the case for more than four rows."""
    subject = next(one for one in subjects("cpu") if one.name == name or f"{one.name}_bf16" == name)
    case = next(case for case in subject.cases("cpu") if str(case.conditions[0]).startswith("M > 4"))
    return lower(case.spec, AMX)


def inside(kernel: Kernel, induction: str) -> list[Op]:
    """What a step of the first such loop does, with what its loops do."""
    loop = next(op for op in kernel.walk() if op.is_(FOR) and op["induction"] == induction)
    return [inner for op in loop.body.ops for inner in op.walk()]


@pytest.mark.parametrize("name", list(DECODED))
def test_columns_are_decoded_once_for_all_rows_of_a_tile(name: str) -> None:
    kernel = lowered(name)
    products = next(
        [inner for one in op.body.ops for inner in one.walk()]
        for op in kernel.walk()
        if op.is_(FOR) and op["induction"] == "wave_M" and any(inner.is_(MMA) for inner in op.walk())
    )
    assert not any(op.is_(LOAD) and op["memory"] == DECODED[name] for op in products)
    assert any(op.is_(LOAD) and op["memory"] == DECODED[name] for op in inside(kernel, "at_K"))


@pytest.mark.parametrize("name", list(DECODED))
def test_rows_are_staged_once_for_all_columns_of_a_tile(name: str) -> None:
    kernel = lowered(name)
    tiles = [op["memory"] for op in kernel.walk() if op.is_(LOAD_TILE)]
    rows, columns = (kernel.memory(next(one for one in tiles if dim in kernel.memory(one).dims)) for dim in "MN")
    of_workgroup = {split.dim: split.tile for split in kernel.distribution.workgroup}
    assert rows.shape[0].value == of_workgroup["M"] and columns.shape[0].value == 32


def test_what_is_decoded_in_a_step_is_read_without_checks_and_its_scales_once() -> None:
    kernel = lowered("linear_i4_bf16")
    strip = inside(kernel, "cut_K")
    loads = [op for op in strip if op.is_(LOAD)]
    assert [op["mask"] for op in loads if op["memory"] == "w"] == [()] * 32
    assert len([op for op in loads if op["memory"] == "scale"]) == 32


def test_sums_that_are_scaled_are_added_row_by_row_beside_the_next_products() -> None:
    kernel = lowered("matmul_f8_blocks")
    products = next(op for op in kernel.walk() if op.is_(FOR) and any(one.is_(MMA) for one in op.body.ops))
    (rows,) = (op for op in products.body.ops if op.is_(FOR))
    assert {op["memory"] for op in rows.body.ops if op.is_(LOAD)} == {"sums", "a_scale", "carried.0"}
    (factor,) = (op for op in rows.body.ops if op.get("memory") == "a_scale")
    assert len(factor["mask"]) == 2, "also of the first row, which is always there"
    blocks = [op for op in inside(kernel, "at_K") if op.is_(LOAD) and op["memory"] == "carried.0"]
    assert {op.result.vector.elements for op in blocks} == {16}


@pytest.mark.parametrize("name", ["linear_i4", "matmul_mxf4", "matmul_f8_blocks"])
def test_rows_that_are_decoded_as_they_lie_are_a_loop(name: str) -> None:
    """Of 128 steps of one row, whose next ones are announced."""
    subject = next(one for one in subjects("cpu") if one.name == name)
    case = next(case for case in subject.cases("cpu") if str(case.conditions[0]).startswith("M > 1"))
    kernel = lower(case.spec, AMX)
    row = inside(kernel, "row")
    loads = [op for op in row if op.is_(LOAD) and op["memory"] == DECODED.get(name, "w")]
    assert [op.result.vector.elements for op in loads] == [64] * 2
    assert any(op.is_(PREFETCH) and op["memory"] == loads[0]["memory"] for op in row)
    assert {op["instruction"] for op in kernel.walk() if op.is_(MMA)} == {"amx_bf16_32x16x32:swapped"}
