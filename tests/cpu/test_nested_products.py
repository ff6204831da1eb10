"""Products in one another and values from outside of their loops, where the waves of a workgroup run in turn."""

from __future__ import annotations

import pytest
import torch

from tests.kernels import check_error, tensors_of
from wavespec.pipeline import best_variant, build
from wavespec.runtime import Kernel
from wavespec.schema import loads
from wavespec.sim.reference import reference

HEAD = "apiVersion: wavespec/v1\nkind: Kernel\nname: nested\n"
ROW_VALUES = f"""{HEAD}dims: {{M: {{}}, N: {{}}, D: {{value: 32}}}}
tensors:
  q: {{shape: [M, D], dtype: bf16}}
  k: {{shape: [N, D], dtype: bf16}}
  lse: {{shape: [M], dtype: f32}}
  dq: {{shape: [M, D], dtype: f32, role: output}}
constraints:
  - {{workgroup: M, tile: 32, axis: 0}}
  - {{tiling: N, tile: 32}}
graph:
  - qt: {{read: q}}
  - ls: {{read: lse}}
  - zk: {{register: [M, D], dtype: f32, value: 0}}
  - l:
      iterate: N
      carry: {{ak: zk}}
      body:
        - kt: {{read: k}}
        - z1: {{register: [M, N], dtype: f32, value: 0}}
        - s: {{mma: [qt, kt, z1]}}
        - dsb: "bf16(s - ls)"
        - ak: {{mma: [dsb, kt, ak]}}
  - {{write: l.ak, to: dq}}
"""
STAGED_ROW_VALUES = f"""{HEAD}dims: {{M: {{}}, N: {{}}, D: {{max: 64}}, E: {{}}}}
tensors:
  q: {{shape: [M, D], dtype: bf16, space: shared}}
  k: {{shape: [N, D], dtype: bf16, space: shared}}
  v: {{shape: [N, E], dtype: bf16, space: shared}}
  past: {{shape: [M], dtype: f32}}
  o: {{shape: [M, E], dtype: f32, role: output}}
constraints:
  - {{workgroup: M, tile: 96, axis: 0}}
  - {{workgroup: E, tile: 64, axis: 1}}
  - {{tiling: N, tile: 64}}
  - {{tiling: D, tile: 64}}
  - {{hardware: {{mma: auto}}}}
graph:
  - q_tile: {{read: q}}
  - now: {{read: past}}
  - zero: {{register: [M, E], dtype: f32, value: 0}}
  - steps:
      iterate: N
      carry: {{acc: zero}}
      body:
        - k_tile: {{read: k}}
        - v_tile: {{read: v}}
        - none: {{register: [M, N], dtype: f32, value: 0}}
        - s: {{mma: [q_tile, k_tile, none]}}
        - w: bf16(s * now)
        - acc: {{mma: [w, v_tile, acc]}}
  - {{write: steps.acc, to: o}}
"""
LOOP_IN_LOOP = f"""{HEAD}dims: {{M: {{}}, N: {{}}, C: {{}}, E: {{}}}}
tensors:
  q: {{shape: [M, C], dtype: bf16, space: shared}}
  k: {{shape: [N, C], dtype: bf16, space: shared}}
  v: {{shape: [N, E], dtype: bf16, space: shared}}
  o: {{shape: [M, E], dtype: f32, role: output}}
constraints:
  - {{workgroup: M, tile: 96, axis: 0}}
  - {{workgroup: E, tile: 128, axis: 1}}
  - {{tiling: N, tile: 128}}
  - {{tiling: C, tile: 256}}
  - {{hardware: {{mma: auto}}}}
graph:
  - nothing: {{register: [M, E], dtype: f32, value: 0}}
  - keys:
      iterate: N
      carry: {{acc: nothing}}
      body:
        - none: {{register: [M, N], dtype: f32, value: 0}}
        - inner:
            iterate: C
            carry: {{s: none}}
            body:
              - q_tile: {{read: q}}
              - k_tile: {{read: k}}
              - s: {{mma: [q_tile, k_tile, s]}}
        - w: bf16(inner.s)
        - v_tile: {{read: v}}
        - acc: {{mma: [w, v_tile, acc]}}
  - {{write: keys.acc, to: o}}
"""
PART_OF_ROWS = f"""{HEAD}dims: {{H: {{}}, N: {{}}, D: {{value: 128}}, E: {{value: 64}}, R: {{value: 64}}}}
tensors:
  q: {{shape: [H, R], dtype: bf16}}
  latent: {{shape: [N, D], dtype: bf16}}
  o: {{shape: [H, E], dtype: f32, role: output}}
constraints:
  - {{workgroup: H, tile: 16, axis: 0}}
  - {{workgroup: E, tile: 64, axis: 1}}
  - {{tiling: N, tile: 32}}
  - {{hardware: {{mma: auto}}}}
graph:
  - q_tile: {{read: q}}
  - nothing: {{register: [H, E], dtype: f32, value: 0}}
  - steps:
      iterate: N
      carry: {{acc: nothing}}
      body:
        - keys: {{read: latent, dims: [N, R], at: {{D: R + 64}}}}
        - values: {{read: latent, dims: [N, E], at: {{D: E}}}}
        - none: {{register: [H, N], dtype: f32, value: 0}}
        - s: {{mma: [q_tile, keys, none]}}
        - w: bf16(s)
        - acc: {{mma: [w, values, acc]}}
  - {{write: steps.acc, to: o}}
"""


@pytest.mark.parametrize(
    ("text", "shapes"),
    [
        (ROW_VALUES, ((40, 32), (70, 32), (40,))),
        (STAGED_ROW_VALUES, ((130, 48), (70, 48), (70, 70), (130,))),
        (LOOP_IN_LOOP, ((100, 300), (140, 300), (140, 130))),
        (PART_OF_ROWS, ((5, 64), (45, 128))),
    ],
    ids=["row values", "staged, with row values", "a loop in a loop", "two parts of a row, in panels"],
)
@pytest.mark.parametrize("whole", [True, False])
def test_results_are_those_of_the_reference(text: str, shapes: tuple[tuple[int, ...], ...], whole: bool) -> None:
    spec, random = loads(text), torch.Generator().manual_seed(len(text))
    kernel = Kernel(build(spec, "cpu", only=best_variant("cpu")))
    dtypes = [torch.float32 if len(shape) == 1 else torch.bfloat16 for shape in shapes]
    inputs = [
        (torch.randint(0, 2, shape, generator=random) if whole else torch.randn(shape, generator=random)).to(dtype)
        for shape, dtype in zip(shapes, dtypes, strict=True)
    ]
    (right,), (own,) = tensors_of(reference(spec, *inputs)), tensors_of(reference(spec, *inputs, compute=None))
    check_error("result", kernel(*inputs), right, own, least_ulps=8)
