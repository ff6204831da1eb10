"""Loops in whose steps many elements are read one by one stand in the text once."""

from __future__ import annotations

import numpy as np
import pytest

from tests.lower.gemms import CPU
from wavespec.ir.kernel import Op
from wavespec.pipeline import lower
from wavespec.schema import KernelSpec, loads
from wavespec.sim.simt import simulate

WEIGHTED = """\
apiVersion: wavespec/v1
kind: Kernel
name: weighted
dims: {K: {}, C: {}}
params: {TAPS: 16, CHANNELS: 64}
tensors:
  x: {shape: [K, C], dtype: f32}
  w: {shape: [C, K], dtype: f32}
  y: {shape: [C], dtype: f32, role: output}
constraints:
  - {workgroup: C, tile: CHANNELS, axis: 0}
  - {tiling: K, tile: TAPS}
graph:
  - zero: {register: [C], dtype: f32, value: 0}
  - steps:
      iterate: K
      carry: {acc: zero}
      body:
        - one: {read: x}
        - weight: {read: w}
        - products: one * weight
        - acc: {sum: products, dim: K, init: acc}
  - {write: steps.acc, to: y}
"""
"""Vectors lie along the channels, across the rows of the weights: 16 taps of 64 channels are 1024 elements."""


def spec(taps: int) -> KernelSpec:
    return loads(WEIGHTED.replace("TAPS: 16", f"TAPS: {taps}"), "weighted.wave.yaml")


def loops(taps: int) -> list[Op]:
    return [op for op in lower(spec(taps), CPU, after="peel-edges").walk() if op.name == "iterate"]


@pytest.mark.parametrize(("taps", "expected"), [(8, 2), (16, 1)])
def test_whole_steps_stand_apart_unless_they_read_a_thousand_elements_one_by_one(taps: int, expected: int) -> None:
    assert len(loops(taps)) == expected


def test_steps_that_stand_there_once_check_bounds() -> None:
    random, sizes = np.random.default_rng(0), {"K": 37, "C": 70}
    x, w = (random.integers(-3, 4, shape).astype(np.float32) for shape in ((37, 70), (70, 37)))
    report = simulate(lower(spec(16), CPU), CPU, {"x": x, "w": w}, sizes)
    assert report.ok, report.render()
    np.testing.assert_array_equal(report.tensors["y"], (x * w.T).sum(0))
