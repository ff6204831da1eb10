"""Sums that fill the registers are added up one after the other."""

from __future__ import annotations

import pytest

from tests.lower.gemms import CPU, NVIDIA, Gemm, run
from wavespec.ir.kernel import Kernel, Op
from wavespec.pipeline import lower
from wavespec.schema import KernelSpec, loads

_TEXT = """\
apiVersion: wavespec/v1
kind: Kernel
name: pair
dims: {M: {}, N: {max: 64}, K: {}}
tensors:
  a: {shape: [M, K], dtype: f32, space: shared}
  b: {shape: [N, K], dtype: f32, space: shared}
  c: {shape: [M, N], dtype: f32, role: output}
constraints:
  - {workgroup: M, tile: 48, axis: 0}
  - {tiling: N, tile: 64}
  - {tiling: K, tile: 16}
  - {hardware: {mma: auto}}
graph:
  - zero: {register: [M, N], dtype: f32, value: 0}
  - k_loop:
      iterate: K
      carry: {acc: zero}
      body:
        - a_tile: {read: a}
        - b_tile: {read: b}
        - acc: {mma: [a_tile, b_tile, acc]}
  - {write: k_loop.acc, to: c}
"""


def pair() -> KernelSpec:
    return loads(_TEXT, "pair.wave.yaml")


def steps(kernel: Kernel) -> list[Op]:
    """The loops of single products."""
    return [op for op in kernel.walk() if op.name == "for" and any(o.name == "mma" for o in op.body.ops)]


@pytest.mark.slow
def test_each_fragment_has_a_loop_of_its_own() -> None:
    before, after = (steps(lower(pair(), CPU, after=stage)) for stage in ("tile-to-thread", "split-chains"))
    assert [len(loop.operands) for loop in before] == [2]
    assert [[op.name for op in loop.body.ops].count("mma") for loop in after] == [1, 1]
    report, expected = run(pair(), CPU, {"M": 13, "N": 40, "K": 35})
    assert report.findings == () and (report.tensors["c"] == expected).all()


def test_waves_that_run_together_keep_their_loops() -> None:
    gemm = Gemm()
    assert gemm.lowered(NVIDIA, "split-chains").body == gemm.lowered(NVIDIA, "tile-to-thread").body
