"""A kernel that steps from numbers of a type to the ones next to them, the numbers, and what torch makes of these."""

from __future__ import annotations

import torch

from wavespec.schema import KernelSpec, loads

TORCH = {"f64": torch.float64, "f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}


def spec(dtype: str) -> KernelSpec:
    return loads(f"""apiVersion: wavespec/v1
kind: Kernel
name: neighbours
dims: {{M: {{}}, N: {{}}}}
tensors:
  x: {{shape: [M, N], dtype: {dtype}}}
  y: {{shape: [M, N], dtype: {dtype}}}
  z: {{shape: [M, N], dtype: {dtype}, role: output}}
constraints:
  - {{workgroup: M, tile: 4, axis: 0}}
  - {{workgroup: N, tile: 64, axis: 1}}
graph:
  - left: {{read: x}}
  - right: {{read: y}}
  - neighbour: {{nextafter: [left, right]}}
  - {{write: neighbour, to: z}}
""")


def pairs(dtype: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Every one of some numbers beside every one; with those that have no leading digit."""
    kind = TORCH[dtype]
    limits, inf = torch.finfo(kind), float("inf")
    sizes = (0.0, limits.smallest_normal, limits.eps * limits.smallest_normal, 0.3, 1.0, 2.0, limits.max, inf)
    numbers = torch.tensor([float("nan"), *(sign * size for size in sizes for sign in (1, -1))], dtype=kind)
    count = len(numbers)
    return numbers[:, None].expand(count, count).contiguous(), numbers.expand(count, count).contiguous()


def check(dtype: str, found: torch.Tensor) -> None:
    """Assert that they are those of torch, bit by bit, but for which NaN there is."""
    expected = torch.nextafter(*pairs(dtype))
    known = ~expected.isnan()
    assert found.dtype == expected.dtype and torch.equal(found.isnan(), ~known)
    assert torch.equal(found[known], expected[known]) and torch.equal(found.signbit()[known], expected.signbit()[known])
