"""`where` between two numbers, and `clamp` in every element type, on the CPU."""

from __future__ import annotations

import pytest
import torch

import wavespec as ws

SPEC = """apiVersion: wavespec/v1
kind: Kernel
name: chosen
dims: {{M: {{}}, N: {{}}}}
tensors:
  x: {{shape: [M, N], dtype: {dtype}}}
  steps: {{shape: [M, N], dtype: i32, role: output}}
  masks: {{shape: [M, N], dtype: f32, role: output}}
  small: {{shape: [M, N], dtype: {dtype}, role: output}}
  kept: {{shape: [M, N], dtype: {dtype}, role: output}}
constraints:
  - {{workgroup: M, tile: 4, axis: 0}}
  - {{workgroup: N, tile: 64, axis: 1}}
graph:
  - tile: {{read: x}}
  - is_large: tile > 1
  - one: {{where: [is_large, 1, 0]}}
  - {{write: one, to: steps}}
  - mask: "where(is_large, -inf, 0.5)"
  - {{write: mask, to: masks}}
  - same: "{dtype}(where(is_large, 1, 0)) + tile"
  - {{write: same, to: small}}
  - between: "clamp(tile, -1, 2)"
  - {{write: between, to: kept}}
"""


@pytest.mark.parametrize("dtype", ["f64", "f32", "f16", "bf16", "i32", "i8"])
def test_numbers_are_chosen_between(dtype: str) -> None:
    names = {"f64": torch.float64, "f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}
    kind = {**names, "i32": torch.int32, "i8": torch.int8}[dtype]
    spec = ws.loads(SPEC.format(dtype=dtype))
    x = (3 * torch.randn(9, 70)).to(kind)
    if kind.is_floating_point:
        x[0, :3] = torch.tensor([float("nan"), float("inf"), -float("inf")]).to(kind)
    is_large = x > 1
    expected = (
        is_large.int(),
        torch.where(is_large, -float("inf"), 0.5).float(),
        is_large.to(kind) + x,
        x.clamp(-1, 2),
    )
    for results in (ws.compile(spec, target="cpu")(x), ws.reference(spec, x, compute=None)):
        for actual, right in zip(results, expected, strict=True):
            torch.testing.assert_close(actual, right, rtol=0, atol=0, equal_nan=True)
