"""What the compiler relies on is what a call is checked for: sizes in 32 bits, bounds of dims, reach of a workgroup."""

from __future__ import annotations

import pytest

from tests.lower.gemms import AMD, NVIDIA, Gemm
from wavespec.pipeline import emit
from wavespec.runtime.size_expr import evaluate
from wavespec.schema import loads
from wavespec.targets.machine import Machine

PROMISED = Gemm(dims=("min: 16", "", "multiple_of: 8, max: 4096"))


def refused(gemm: Gemm, machine: Machine, **sizes: int) -> list[str]:
    """The assumptions that a call breaks."""
    every = emit(gemm.spec, machine).interface.assumptions
    return [one.text for one in every if not evaluate(one.condition, sizes)]


@pytest.mark.parametrize("machine", [AMD, NVIDIA])
def test_smallest_and_largest_sizes_are_checked(machine: Machine) -> None:
    assert refused(PROMISED, machine, M=16, N=0, K=4096) == []
    assert refused(PROMISED, machine, M=15, N=0, K=4104) == ["M >= 16", "K <= 4096"]


def test_fixed_and_unbounded_dims_need_no_check() -> None:
    gemm = Gemm(dims=("value: 32", "", "multiple_of: 8"))
    assert emit(gemm.spec, NVIDIA).interface.assumptions == ()


def test_a_size_that_is_in_no_tensor_and_that_another_follows_from_is_known_at_the_call() -> None:
    spec = loads("""
apiVersion: wavespec/v1
kind: Kernel
name: doubled
dims: {M: {}, N: {equals: TILE}, R: {equals: M + N}}
params: {TILE: 16}
tensors:
  x: {shape: [M], dtype: f32}
  y: {shape: [R], dtype: f32, role: output}
constraints: [{workgroup: R, tile: 64, axis: 0}]
graph: [{read_x: {read: x, dims: [R], at: {M: R % size(M)}}}, {write: read_x, to: y}]
""")
    interface = emit(spec, AMD).interface
    assert [(dim.name, dim.size) for dim in interface.dims] == [("M", None), ("N", 16), ("R", None)]
