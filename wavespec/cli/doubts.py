"""What came up when a graph was run on random inputs goes in; why equal results would show little comes out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from wavespec.ops.contexts import LookUp, ReferenceContext


@dataclass(frozen=True, slots=True)
class Doubt:
    """A reason why a run shows little."""

    text: str
    shows_nothing: bool = False
    """Whether there is an output of which no element could be compared."""


def doubts_about(context: ReferenceContext, exact: Sequence[Tensor], rounded: Sequence[Tensor]) -> list[Doubt]:
    """What is strange about the inputs, and what they lead to, each in words.

    Args:
        context: of a graph that was run.
        exact: what it writes, in f64.
        rounded: the same in the types of the spec.
    """
    written = context.computation.written
    found = list(map(Doubt, dict.fromkeys(_outside(context.looked_up))))
    for name, one, other in zip(written, exact, rounded, strict=True):
        found += _about_result(name, one.double(), other.double())
    return found


def _outside(looked_up: Sequence[LookUp]) -> Iterator[str]:
    for value, within, dim, numbers, size in looked_up:
        outside = int(((numbers < 0) | (numbers >= size)).sum())
        if outside:
            yield (
                f"{outside} of {numbers.numel()} numbers of '{value}' are no places along {dim} of '{within}', "
                f"which has {size}"
            )


def _about_result(name: str, exact: Tensor, rounded: Tensor) -> Iterator[Doubt]:
    strange = int((~(exact.isfinite() & rounded.isfinite())).sum())
    if strange:
        text = f"{strange} of {exact.numel()} elements of '{name}' are not finite, for torch too"
        yield Doubt(text, strange == exact.numel())
    elif exact.numel() > 1 and not torch.count_nonzero(exact):
        yield Doubt(f"all {exact.numel()} elements of '{name}' are 0, for torch too")
