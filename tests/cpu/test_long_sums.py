"""Sums and products over long dims on this machine's CPU err at most twice as much as torch's."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from tests.cpu.test_rows import TORCH, kernel
from tests.kernels import check_error
from wavespec.schema import loads

SPEC = """
apiVersion: wavespec/v1
kind: Kernel
name: joined
dims: {{N: {{}}, B: {{}}}}
tensors:
  x: {{shape: [N, B], dtype: {dtype}}}
  y: {{shape: [B], dtype: {dtype}, role: output}}
graph:
  - none: {{register: [B], dtype: {dtype}, value: {start}}}
  - rows:
      iterate: N
      carry: {{so_far: none}}
      body:
        - part: {{read: x}}
{body}
  - {{write: rows.so_far, to: y}}
"""
STARTS = "        - so_far: {{{word}: part, dim: N, init: so_far}}"
ADDED = "        - here: {sum: part, dim: N}\n        - so_far: so_far + here"


def check(dtype: str, start: int, body: str, x: Tensor, meaning: Callable[[Tensor, int], Tensor]) -> None:
    x = x.to(TORCH[dtype])
    got = kernel(loads(SPEC.format(dtype=dtype, start=start, body=body)))(x)
    check_error("y", got, meaning(x.double(), 0), meaning(x, 0))


@pytest.mark.parametrize("how", [STARTS.format(word="sum"), ADDED], ids=["init", "added"])
@pytest.mark.parametrize("dtype", ["f32", "bf16", "f16"])
def test_sums(dtype: str, how: str) -> None:
    random = torch.Generator().manual_seed(5)  # how much one number errs is chance: 0.64 of torch's in the mean of 150
    normal = torch.randn(400_000, 1, generator=random)
    for x in (torch.rand(60_000, 3, generator=random), torch.full((70_000, 1), 0.1), normal):
        check(dtype, 0, how, x, torch.sum)


@pytest.mark.parametrize("spread", [1e-3, 0.02])
def test_products(spread: float) -> None:
    x = 1 + spread * (torch.rand(65_537, 3, generator=torch.Generator().manual_seed(2)) - 0.5)
    check("f32", 1, STARTS.format(word="prod"), x, torch.prod)
