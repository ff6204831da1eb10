"""A product whose left operand is made of another one's sums, for machines with asynchronous matrix units."""

from __future__ import annotations

import numpy as np

from tests.lower.gemms import NVIDIA
from wavespec.ir.kernel import Kernel
from wavespec.schema import KernelSpec, loads
from wavespec.sim.findings import SimulationReport
from wavespec.sim.interleaving import Order
from wavespec.sim.simt import simulate

TEXT = """\
apiVersion: wavespec/v1
kind: Kernel
name: chained
dims: {M: {}, N: {}, D: {min: 8, max: 16, multiple_of: 8}, E: {min: 8, multiple_of: 8}}
params: {BLOCK_M: 64, BLOCK_N: 16, BLOCK_D: 16, BLOCK_E: 16}
tensors:
  a: {shape: [M, D], dtype: f16, space: shared}
  b: {shape: [N, D], dtype: f16, space: shared}
  v: {shape: [N, E], dtype: f16, space: shared}
  c: {shape: [M, E], dtype: f32, role: output}
  d: {shape: [M], dtype: f32, role: output}
constraints:
  - {workgroup: M, tile: BLOCK_M, axis: 0}
  - {workgroup: E, tile: BLOCK_E, axis: 1}
  - {wave: M, tile: 64}
  - {tiling: N, tile: BLOCK_N}
  - {tiling: D, tile: BLOCK_D}
  - {hardware: {mma: auto}}
graph:
  - a_tile: {read: a}
  - nothing: {register: [M, E], dtype: f32, value: 0}
  - none: {register: [M], dtype: f32, value: 0}
  - steps:
      iterate: N
      carry: {total: none, acc: nothing}
      body:
        - b_tile: {read: b}
        - v_tile: {read: v}
        - zero: {register: [M, N], dtype: f32, value: 0}
        - products: {mma: [a_tile, b_tile, zero]}
        - more: products + 1
        - part: {sum: more, dim: N}
        - total: total + part
        - weight: f16(more)
        - scaled: maximum(acc, -1000000)
        - acc: {mma: [weight, v_tile, scaled]}
  - {write: steps.total, to: d}
  - {write: steps.acc, to: c}
schedule: {stages: 3, waves: {producers: 1}}
"""
"""``c = (a · bᵀ + 1) · v`` and ``d`` its weights' sums: what is added makes elements beyond the edge of N count, were they
not zero; no sum is as small as what bounds them."""


def products_of_sums(*changes: tuple[str, str]) -> KernelSpec:
    text = TEXT
    for old, new in changes:
        assert old in text, f"'{old}' is not in the spec"
        text = text.replace(old, new)
    return loads(text, "chained.wave.yaml")


def run(kernel: Kernel, sizes: tuple[int, int, int, int], order: Order = "forward") -> tuple[SimulationReport, bool]:
    """The report, and whether the results are right; sums of small whole numbers are exact."""
    random = np.random.default_rng(0)
    extents = dict(zip("MNDE", sizes, strict=True))
    shapes = {"a": "MD", "b": "ND", "v": "NE"}
    inputs = {
        name: random.integers(-2, 3, [extents[dim] for dim in dims]).astype(np.float16) for name, dims in shapes.items()
    }
    report = simulate(kernel, NVIDIA, inputs, extents, order=order)
    a, b, v = (inputs[name].astype(np.float64) for name in shapes)
    weights = a @ b.T + 1
    right = {"c": weights @ v, "d": weights.sum(1)}
    return report, all(np.array_equal(report.tensors[name], value) for name, value in right.items())
