"""Specs without tiles that choose among the columns of a product, by the lanes of GPUs: whatever columns there are."""

from __future__ import annotations

import numpy as np
import pytest

from wavespec.ir.dtype import DTYPES
from wavespec.pipeline import lower
from wavespec.schema import loads
from wavespec.schema.cases import case_for_sizes, cases_for_target
from wavespec.sim.elements import numpy_dtype
from wavespec.sim.simt import simulate
from wavespec.targets.machine import machines

TEXT = """\
apiVersion: wavespec/v1
kind: Kernel
name: route
dims: {T: {}, D: {}, X: COLUMNS, K: {value: 4}}
tensors:
  x: {shape: [T, D], dtype: TYPE}
  router: {shape: [X, D], dtype: TYPE}
  found: {shape: [T, K], dtype: f32, role: output}
  experts: {shape: [T, K], dtype: i32, role: output}
graph:
  - zero: {register: [T, X], dtype: f32, value: 0}
  - sums:
      iterate: D
      carry: {acc: zero}
      body:
        - x_tile: {read: x}
        - router_tile: {read: router}
        - acc: {mma: [x_tile, router_tile, acc]}
  - largest: {topk: sums.acc, dim: X, k: K, indices: places, dtype: i32}
  - {write: largest, to: found}
  - {write: places, to: experts}
"""


@pytest.mark.parametrize(
    ("target", "dtype", "columns", "experts"),
    [
        ("sm_90", "bf16", "{value: 8}", 8),  # 64 columns of the matrix unit
        ("sm_90", "bf16", "{value: 60}", 60),
        ("sm_90", "bf16", "{min: 4, max: 384}", 290),  # staged tiles leave room for what lanes hand on
        ("sm_90", "f32", "{value: 60}", 60),
        ("sm_90", "f32", "{value: 160}", 160),  # lanes cannot copy such tiles evenly while they compute
        ("sm_90", "f32", "{value: 256}", 256),  # ranks of 16 rows are 256 registers of a lane: plain lanes
        ("gfx942", "bf16", "{value: 8}", 8),
        ("gfx942", "f32", "{value: 60}", 60),
    ],
)
def test_cases_choose_the_largest(target: str, dtype: str, columns: str, experts: int) -> None:
    spec = loads(TEXT.replace("COLUMNS", columns).replace("TYPE", dtype))
    (machine,) = machines(target)
    cases, random, d = cases_for_target(spec, target), np.random.default_rng(0), 128
    for tokens, is_general in ((2, False), (13, False), (19, True)):
        x, router = (random.integers(-2, 3, shape) for shape in ((tokens, d), (experts, d)))
        element = numpy_dtype(DTYPES[dtype])
        inputs = {"x": x.astype(element), "router": router.astype(element)}
        sizes = {"T": tokens, "D": d, "X": experts, "K": 4}
        case = cases[-1] if is_general else case_for_sizes(cases, sizes)
        report = simulate(lower(case.spec, machine), machine, inputs, sizes)
        assert report.ok, report.render()
        scores = x @ router.T
        best = np.argsort(-scores, axis=1, kind="stable")[:, :4]  # of equal ones the first
        np.testing.assert_array_equal(report.tensors["experts"], best)
        np.testing.assert_array_equal(report.tensors["found"], np.take_along_axis(scores, best, 1))
