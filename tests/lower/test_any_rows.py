"""Rows of any promise, length, plan and way into registers: read twice, joined, written and branched on, they are right or
refused."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tests.lower.gemms import AMD, NVIDIA
from wavespec.diagnostics import WavespecError
from wavespec.pipeline import lower
from wavespec.schema import loads
from wavespec.sim.elements import numpy_dtype
from wavespec.sim.simt import simulate
from wavespec.targets.machine import Machine

FEWER = settings(max_examples=max(8, settings().max_examples // 3))

TEXT = """apiVersion: wavespec/v1
kind: Kernel
name: rows
dims: {{M: {{}}, N: {promise}, P: {{}}}}
tensors:
  x: {{shape: [M, N], dtype: {dtype}{space}}}
  weight: {{shape: [N], dtype: f32}}
  some: {{shape: [P], dtype: f32}}
  y: {{shape: [M, N], dtype: f32, role: output}}
constraints:
  - {{workgroup: M, tile: {rows}, axis: 0}}
  - {{wave: M, tile: 1}}
  - {{tiling: N, tile: {tile}}}
  - {{wave: N, tile: {wave}}}
graph:
  - none: {{register: [M], dtype: f32, value: 0}}
  - rows:
      iterate: N
      carry: {{total: none}}
      body:
{body}
  - results:
      iterate: N
      body:
        - last: {{read: x}}
        - factor: {{read: weight}}
        - result: "f32(last) * factor + rows.total"
        - {{write: result, to: y}}
schedule: {{workgroups: {{{workgroups}}}}}
"""
WHOLE = """        - part: {read: x}
        - number: "f32(part)"
        - total: {sum: number, dim: N, init: total}"""
SOME = """        - skip:
            if: "start(N) < size(P)"
            carry: {total: total}
            body:
              - part: {read: x}
              - number: "where(index(N) < P, f32(part), 0)"
              - total: {sum: number, dim: N, init: total}
        - total: skip.total"""
PLAN: dict[str, st.SearchStrategy[Any]] = {
    "promise": st.sampled_from(["{}", "{max: 500}", "{max: 1000}", "{multiple_of: 4}", "{multiple_of: 64, max: 512}"]),
    "dtype": st.sampled_from(["f32", "bf16", "i8"]),
    "space": st.sampled_from(["", ", space: shared"]),
    "rows": st.sampled_from([1, 2]),
    "tile": st.sampled_from([64, 128, 512]),
    "wave": st.sampled_from([64, 32]),
    "body": st.sampled_from([WHOLE, SOME]),
    "workgroups": st.sampled_from(["split: 1", "split: 2", "split: 8", "resident: 2", "persistent: true, count: 3"]),
}


@FEWER
@given(
    st.fixed_dictionaries(PLAN),
    st.integers(0, 9),
    st.integers(0, 600),
    st.integers(0, 600),
    st.sampled_from([NVIDIA, AMD]),
)
def test_a_plan_is_right_or_refused(plan: dict[str, Any], m: int, n: int, p: int, machine: Machine) -> None:
    try:
        kernel = lower(loads(TEXT.format(**plan), "rows.wave.yaml"), machine)
    except WavespecError:
        assume(False)
        return
    size = kernel.size("N")
    n = min(n, 600 if size.high is None else size.high) // size.divisor * size.divisor
    random = np.random.default_rng(n)
    x, weight, some = (random.integers(-9, 10, shape).astype(np.float32) for shape in ((m, n), n, p))
    elements = x.astype(numpy_dtype(kernel.memory("x").dtype))
    report = simulate(kernel, machine, {"x": elements, "weight": weight, "some": some}, {"M": m, "N": n, "P": p})
    assert report.ok, report.render()
    joined = x[:, :p] if plan["body"] is SOME else x
    np.testing.assert_array_equal(report.tensors["y"], x * weight + joined.sum(1, keepdims=True))
