"""Sums of tile registers are written while the products of the next tile are made."""

from __future__ import annotations

import pytest
import torch

from tests.emit.test_amx import emulated_kernel
from tests.lower.gemms import Gemm, run
from wavespec.ir.kernel import Kernel, Op
from wavespec.ir.thread_ops import ACCUMULATE, FOR, LOAD, MMA, PREFETCH, STORE
from wavespec.lower.write_behind import WriteBehind
from wavespec.pipeline import lower
from wavespec.schema import loads
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


ROUNDED = """
apiVersion: wavespec/v1
kind: Kernel
name: rounded
dims: {M: {}, N: {}, K: {multiple_of: 32, max: 512}}
tensors:
  a: {shape: [M, K], dtype: bf16, space: shared}
  b: {shape: [N, K], dtype: bf16, space: shared}
  bias: {shape: [N], dtype: bf16}
  residual: {shape: [M, N], dtype: bf16}
  c: {shape: [M, N], dtype: bf16, role: output}
constraints:
  - {workgroup: M, tile: 64, axis: 0}
  - {workgroup: N, tile: 96, axis: 1}
  - {tiling: K, tile: 512}
  - {hardware: {mma: auto}}
graph:
  - zero: {register: [M, N], dtype: f32, value: 0}
  - sums: {iterate: K, carry: {acc: zero}, body: [a_tile: {read: a}, b_tile: {read: b}, acc: {mma: [a_tile, b_tile, acc]}]}
  - bias_tile: {read: bias}
  - residual_tile: {read: residual}
  - result: "bf16(sums.acc + f32(bias_tile) + f32(residual_tile))"
  - {write: result, to: c}
"""


def test_what_is_computed_of_a_row_is_computed_where_it_is_written() -> None:
    kernel = lower(loads(ROUNDED), AMX)
    loops = [op for op in kernel.walk() if op.is_(FOR) and any(one.is_(STORE) for one in op.body.ops)]
    of_rows = [op for op in loops if any(one.is_(LOAD) and one["memory"] == "sums" for one in op.body.ops)]
    assert len(of_rows) == 3
    for loop in of_rows:
        assert {one["memory"] for one in loop.body.ops if one.is_(LOAD)} == {"sums", "bias", "residual"}
        assert [one["memory"] for one in loop.body.ops if one.is_(STORE)] == ["c"], "32 elements of 16 bits"


@pytest.mark.compiles
def test_rows_computed_behind_are_those_computed_at_once() -> None:
    random = torch.Generator().manual_seed(0)
    a, b, bias, residual = (
        torch.randint(-3, 4, shape, generator=random).bfloat16() for shape in ((70, 64), (100, 64), (100,), (70, 100))
    )
    expected = (a.float() @ b.float().T + bias.float() + residual.float()).bfloat16()
    assert torch.equal(emulated_kernel(loads(ROUNDED))(a, b, bias, residual), expected)


def test_what_differs_from_row_to_row_is_computed_at_once() -> None:
    turned = ROUNDED.replace("bf16(sums.acc +", "bf16(where(index(M) % 2 == 0, sums.acc, 0 - sums.acc) +")
    kernel = lower(loads(turned), AMX)
    assert turned != ROUNDED and not any(op.is_(LOAD) and op["memory"] == "sums" for op in kernel.walk())
