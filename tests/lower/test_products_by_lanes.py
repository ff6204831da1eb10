"""Products that lanes add up: what becomes of an mma, what loops carry, and which types there are."""

from __future__ import annotations

import pytest

from tests.kernels import SPECS
from wavespec.ir.declarations import Group
from wavespec.ir.kernel import Kernel, Op
from wavespec.ir.thread_ops import ELEMENTWISE, FOR
from wavespec.ir.tile_ops import CAST, JOIN, MMA, REDUCE
from wavespec.lower.choose_instructions import NoMatrixInstruction
from wavespec.pipeline import lower
from wavespec.schema import loads
from wavespec.targets.machine import machines

(HOPPER,) = machines("sm_90")
TEXT = """apiVersion: wavespec/v1
kind: Kernel
name: few
dims: {{M: {{max: 2}}, N: {{}}, K: {{multiple_of: 8}}}}
tensors:
  a: {{shape: [M, K], dtype: {dtype}}}
  b: {{shape: [N, K], dtype: {dtype}}}
  c: {{shape: [M, N], dtype: {sums}, role: output}}
constraints:
  - {{workgroup: N, tile: 4, axis: 0}}
  - {{workgroup: M, tile: 2, axis: 1}}
  - {{tiling: K, tile: 512}}
  - {{wave: K, tile: 256}}
  - {{hardware: {{mma: lanes}}}}
graph:
  - zero: {{register: [M, N], dtype: {sums}, value: 0}}
  - k_loop:
      iterate: K
      carry: {{acc: zero}}
      body:
        - a_tile: {{read: a}}
        - b_tile: {{read: b}}
        - acc: {{mma: [a_tile, b_tile, acc]}}
  - {{write: k_loop.acc, to: c}}
"""


def lowered(dtype: str = "f32", sums: str = "f32", after: str | None = None) -> Kernel:
    spec = loads(TEXT.format(dtype=dtype, sums=sums), "few.wave.yaml", SPECS)
    return lower(spec, HOPPER, after=after) if after else lower(spec, HOPPER)


def only(kernel: Kernel, kind: Group) -> Op:
    (op,) = (op for op in kernel.walk() if op.is_(kind))
    return op


def test_a_product_becomes_products_of_elements_and_their_sum() -> None:
    kernel = lowered(after="multiply-by-lanes")
    reduction = only(kernel, REDUCE)
    assert not any(op.is_(MMA) for op in kernel.walk())
    assert reduction["by_lane"]
    assert (reduction["dim"], reduction.operands[0].tile.dims) == ("K", ("M", "N", "K"))


@pytest.mark.parametrize("dtype", ["bf16", "f16"])
def test_small_numbers_are_multiplied_in_the_type_of_sums(dtype: str) -> None:
    casts = [op.result.tile.dtype.name for op in lowered(dtype, after="multiply-by-lanes").walk() if op.is_(CAST)]
    assert casts == ["f32", "f32"]


def test_loops_carry_one_number_of_a_lane_for_each_result() -> None:
    kernel = lowered(after="assign-layouts")
    join = only(kernel, JOIN)
    carried, value = (one.tile.layout for one in join.operands)
    assert carried is not None
    assert value is not None
    assert (carried.elements, value.elements) == (2 * 4, 2 * 4 * 8)
    assert carried.base == value.base


def test_elements_are_added_by_multiply_adds() -> None:
    loop = next(op for op in lowered().walk() if op.is_(FOR))
    adds = [op["function"] for op in loop.body.ops if op.is_(ELEMENTWISE) and op["function"] in ("add", "fma")]
    assert adds == ["fma"] * (2 * 4 * 8)


def test_f64_is_multiplied_too() -> None:
    assert only(lowered("f64", "f64", "multiply-by-lanes"), REDUCE).result.tile.dtype.name == "f64"


def test_other_types_are_refused() -> None:
    with pytest.raises(NoMatrixInstruction, match="'lanes' does not multiply i8"):
        lowered("i8", "i32")
