"""What becomes of a call of an operator: a plan, or the reason that there is none."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor


class LeftOut(Exception):
    """No kernel computes the call; the reason is the text."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A call of a kernel: `output` is which of its results, `back` brings that into the form of the operator's."""

    kernel: str
    inputs: tuple[Tensor, ...]
    back: Callable[[Tensor], Tensor]
    output: int = 0
    scalars: Mapping[str, float] = field(default_factory=dict[str, float])


def dtype_word(x: Tensor) -> str:
    """The element type as a spec says it."""
    return {torch.float32: "f32", torch.float64: "f64", torch.int64: "i64"}[x.dtype]
