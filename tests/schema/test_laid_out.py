"""Bytes that do not lie along the steps of a product: for which sizes, and how, kernels before lay them out so."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.layouts import product
from wavespec.schema import KernelSpec, loads
from wavespec.schema.cases import case_for_sizes, cases_for_target
from wavespec.schema.language.constraints import Hardware

BATCHED = """
apiVersion: wavespec/v1
kind: Kernel
name: batched
dims: {B: {}, M: {}, N: {}, K: {}}
tensors:
  a: {shape: [B, M, K], dtype: i8}
  b: {shape: [B, K, N], dtype: i8}
  c: {shape: [B, M, N], dtype: i32, role: output}
graph:
  - zero: {register: [B, M, N], dtype: i32, value: 0}
  - steps:
      iterate: K
      carry: {acc: zero}
      body:
        - rows: {read: a}
        - columns: {read: b, dims: [B, N, K]}
        - acc: {mma: [rows, columns, acc]}
  - {write: steps.acc, to: c}
"""


def laid_out(spec: KernelSpec, sizes: Mapping[str, int], target: str = "sm_90") -> dict[str, tuple[str, ...]]:
    """What kernels before the one of a call write, each with its dims in their order."""
    *before, _ = case_for_sizes(cases_for_target(spec, target), sizes).kernels
    return {name: one.shape for kernel in before for name, one in kernel.tensors.items() if one.role == "output"}


def sides(size: int) -> dict[str, int]:
    return dict.fromkeys("MNK", size)


A, B = {"a_made": ("M", "K")}, {"b_made": ("N", "K")}


@pytest.mark.parametrize("dtype", ["i8", "u8", "f8e4m3fn", "f8e5m2"])
def test_operands_that_do_not_lie_along_the_steps_are_laid_out_so(dtype: str) -> None:
    assert laid_out(product(dtype, "M, K", "N, K"), sides(1024)) == {}
    assert laid_out(product(dtype, "M, K", "K, N"), sides(1024)) == B
    assert laid_out(product(dtype, "K, M", "N, K"), sides(1024)) == A
    assert laid_out(product(dtype, "K, M", "K, N"), sides(1024)) == A | B


def test_what_the_matrix_unit_reads_along_any_dim_is_not() -> None:
    assert laid_out(product("bf16", "K, M", "K, N"), sides(1024)) == {}


@pytest.mark.parametrize("target", ["cpu", "gfx942"])
def test_other_machines_read_bytes_where_they_are(target: str) -> None:
    assert laid_out(product("i8", "K, M", "K, N"), sides(1024), target) == {}


def test_few_steps_are_not_worth_a_launch_unless_there_are_many_tiles() -> None:
    one, both = product("i8", "M, K", "K, N"), product("i8", "K, M", "K, N")
    assert laid_out(one, sides(128)) == {} and laid_out(one, sides(256)) == B
    assert laid_out(both, sides(256)) == {} and laid_out(both, sides(512)) == A | B
    assert laid_out(one, sides(128) | {"K": 64}) == {} and laid_out(one, sides(4096) | {"K": 64}) == B


def test_rows_that_steps_do_not_fill_with_widest_accesses_are_read_where_they_are() -> None:
    """No box copies them, wherever they lie."""
    spec = product("i8", "M, K", "K, N")
    assert laid_out(spec, {"M": 1000, "N": 1017, "K": 528}) == B and laid_out(spec, sides(1000) | {"K": 529}) == {}
    assert laid_out(product("i8", "M, K", "K, N", fixed={"K": 1001}), {"M": 1000, "N": 1024}) == {}


def test_lanes_turn_blocks_where_rows_start_as_widest_accesses_do() -> None:
    """Else they are turned in shared memory."""
    cases = cases_for_target(product("i8", "M, K", "K, N"), "sm_90")
    for columns, in_blocks in ((1024, True), (1017, False)):
        turning, _ = case_for_sizes(cases, {"M": 1024, "N": columns, "K": 1024}).kernels
        vectors = [dict(one.settings.vector) for one in turning.constraints if isinstance(one, Hardware)]
        assert [{dim: int(size.evaluate({})) for dim, size in one.items()} for one in vectors] == (
            [{"N": 16, "K": 16}] if in_blocks else []
        )
        assert turning.tensors["b"].space == ("global" if in_blocks else "shared")


def test_batches_are_laid_out_too() -> None:
    assert laid_out(loads(BATCHED), sides(1024) | {"B": 4}) == {"b_made": ("B", "N", "K")}


def test_what_may_have_any_strides_is_not() -> None:
    spec = loads(BATCHED.replace("b: {shape: [B, K, N], dtype: i8", "b: {shape: [B, K, N], dtype: i8, strides: any"))
    assert all(not case.before for case in cases_for_target(spec, "sm_90"))


@pytest.mark.parametrize("dtype", ["i8", "f8e4m3fn"])
def test_results_whose_rows_start_anywhere_are_multiplied_by_the_same_unit(dtype: str) -> None:
    """Beside operands that lie along the steps: a wave is a warpgroup's 64 rows, and another one copies."""
    spec = case_for_sizes(cases_for_target(product(dtype), "sm_90"), {"M": 1000, "N": 1017, "K": 528}).spec
    assert spec.schedule is not None and spec.schedule.waves is not None and spec.schedule.waves.producers is not None
