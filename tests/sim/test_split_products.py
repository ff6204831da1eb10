"""Products of f32 whose rows start anywhere, by multiply-adds of workgroups that share out the sums: no wave only copies."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels import SPECS
from wavespec.pipeline import lower
from wavespec.schema import loads
from wavespec.sim.simt import simulate
from wavespec.targets.machine import machines

TEXT = """apiVersion: wavespec/v1
kind: Kernel
name: split
dims: {M: {}, N: {}, K: {}}
tensors:
  a: {shape: [M, K], dtype: f32, space: shared}
  b: {shape: [N, K], dtype: f32, space: shared}
  c: {shape: [M, N], dtype: f32, role: output}
constraints:
  - {workgroup: M, tile: 32, axis: 0}
  - {workgroup: N, tile: 64, axis: 1}
  - {tiling: K, tile: 32}
  - {wave: M, tile: 16}
  - {wave: N, tile: 32}
  - {hardware: {mma: fma_sums_f32_16x32x4}}
schedule: {stages: 3, workgroups: {split: 4}}
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


@pytest.mark.parametrize(("rows", "columns", "depth"), [(37, 70, 205), (33, 77, 31), (33, 65, 1001)])
def test_workgroups_without_producers_share_out_sums(rows: int, columns: int, depth: int) -> None:
    (machine,) = machines("sm_90")
    random = np.random.default_rng(0)
    a, b = (random.integers(-3, 4, (count, depth)).astype(np.float32) for count in (rows, columns))
    kernel = lower(loads(TEXT, "split.wave.yaml", SPECS), machine)
    report = simulate(kernel, machine, {"a": a, "b": b}, {"M": rows, "N": columns, "K": depth})
    assert report.ok, report.render()
    np.testing.assert_array_equal(report.tensors["c"], a @ b.T)
