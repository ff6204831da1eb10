"""Results of one column on Hopper: their rows are no rows of boxes, which start at multiples of 16 bytes."""

from __future__ import annotations

import numpy as np

from wavespec.ir.thread_ops import BULK_STORE
from wavespec.pipeline import lower
from wavespec.schema import loads
from wavespec.sim.simt import simulate
from wavespec.targets.machine import machines

(HOPPER,) = machines("sm_90")
SPEC = """
apiVersion: wavespec/v1
kind: Kernel
name: one_column
dims: {M: {multiple_of: 8}, N: {value: 1}, K: {multiple_of: 8}}
tensors:
  a: {shape: [M, K], dtype: f16, space: shared}
  b: {shape: [N, K], dtype: f16, space: shared}
  c: {shape: [M, N], dtype: f16, role: output}
constraints:
  - {workgroup: M, tile: 64, axis: 0}
  - {workgroup: N, tile: 64, axis: 1}
  - {tiling: K, tile: 64}
  - {wave: M, tile: 64}
  - {wave: N, tile: 64}
  - {hardware: {mma: auto}}
schedule: {stages: 4, waves: {producers: 1}}
graph:
  - zero: {register: [M, N], dtype: f32, value: 0}
  - k_loop:
      iterate: K
      carry: {acc: zero}
      body:
        - a_tile: {read: a}
        - b_tile: {read: b}
        - acc: {mma: [a_tile, b_tile, acc]}
  - result: f16(k_loop.acc)
  - {write: result, to: c}
"""


def test_lanes_store_a_single_column() -> None:
    kernel = lower(loads(SPEC), HOPPER)
    assert not any(op.is_(BULK_STORE) for op in kernel.walk())
    random = np.random.default_rng(0)
    a, b = (random.integers(-3, 4, shape).astype(np.float16) for shape in ((72, 72), (1, 72)))
    report = simulate(kernel, HOPPER, {"a": a, "b": b}, {"M": 72, "K": 72})
    assert report.ok, report.render()
    np.testing.assert_array_equal(report.tensors["c"], a @ b.T)
