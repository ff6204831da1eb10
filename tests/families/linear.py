"""The family `linear` for tests: its members, arguments, and what torch makes of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional

from wavespec.schema.families.expand import Family
from wavespec.schema.families.load_family import load_family

FOLDER = Path(__file__).parent
ACTIVATIONS: Mapping[str, Callable[[Tensor], Tensor]] = {
    "none": lambda sums: sums,
    "relu": functional.relu,
    "gelu": functional.gelu,
    "silu": functional.silu,
}
TYPES: Mapping[str, torch.dtype] = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}


@cache
def family(name: str) -> Family:
    return load_family(FOLDER / f"{name}.wave.yaml")


def arguments(dtype: torch.dtype, leading: tuple[int, ...] = (70,), n: int = 50, k: int = 90) -> list[Tensor]:
    """`x`, `w` and `bias` of small whole numbers."""
    generator = torch.Generator().manual_seed(n + k)
    shapes = (*leading, k), (n, k), (n,)
    return [torch.randint(-2, 3, shape, generator=generator).to(dtype) for shape in shapes]


def check(result: Tensor, activation: str, x: Tensor, w: Tensor, bias: Tensor | None = None) -> None:
    """Exact where whole numbers stay whole, else at most twice as far from f64 as torch in the same types."""
    wide = functional.linear(x.double(), w.double(), None if bias is None else bias.double())
    right = ACTIVATIONS[activation](wide)
    assert result.dtype == x.dtype and result.shape == right.shape
    if activation in ("none", "relu") or result.numel() == 0:
        assert torch.equal(result, right.to(x.dtype))
        return
    torchs = ACTIVATIONS[activation](wide.float()).to(x.dtype)
    error, allowed = ((one.double() - right).abs().max() for one in (result, torchs))
    assert error <= 2 * allowed
