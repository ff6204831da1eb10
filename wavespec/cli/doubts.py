"""What came up when a graph was run on some inputs goes in; why equal results would show little comes out."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from wavespec.ops.contexts import LookUp, ReferenceContext
from wavespec.runtime.artifact import PACKED
from wavespec.schema import KernelSpec
from wavespec.tune.held_numbers import ANYTHING, Held, problem


@dataclass(frozen=True, slots=True)
class Doubt:
    """A reason why a run shows little."""

    text: str
    shows_nothing: bool = False
    """Whether there is an output of which no element could be compared."""


def doubts_about(
    context: ReferenceContext, exact: Sequence[Tensor], rounded: Sequence[Tensor], shown: Container[str]
) -> list[Doubt]:
    """What is strange about the inputs, and what they lead to, each in words.

    Args:
        context: of a graph that was run.
        exact: what it writes, in f64.
        rounded: the same in the types of the spec.
        shown: the tensors that the spec has, of all that are written.
    """
    written = context.computation.written
    found = list(map(Doubt, dict.fromkeys(_outside(context.looked_up))))
    for name, one, other in zip(written, exact, rounded, strict=True):
        found += _about_result(name, one.double(), other.double()) if name in shown else ()
    return found


def doubts_about_inputs(spec: KernelSpec, held: Mapping[str, Held], inputs: Mapping[str, Tensor]) -> list[Doubt]:
    """Inputs that do not hold what they are said to, or what the graph uses them for, or that are not finite."""
    found: list[Doubt] = []
    for name, tensor in inputs.items():
        if what := problem(held.get(name, ANYTHING), name, tensor):
            found.append(Doubt(what))
        elif spec.tensors[name].dtype not in PACKED and tensor.dtype.is_floating_point:
            strange = int((~tensor.to(torch.float64).isfinite()).sum())
            found += [Doubt(f"{strange} of {tensor.numel()} elements of '{name}' are not finite")] if strange else []
    return found


def doubts_about_sameness(results: Mapping[str, Tensor], others: Iterable[Sequence[Tensor]]) -> list[Doubt]:
    """Results that are the same for others, of which `others` has the results; those of zeros are told already."""
    same = {name: one for name, one in results.items() if one.numel() == 1 or torch.count_nonzero(_plain(one))}
    places = {name: place for place, name in enumerate(results)}
    for other in others:
        same = {name: one for name, one in same.items() if torch.equal(_plain(one), _plain(other[places[name]]))}
        if not same:
            break
    return [Doubt(f"'{name}' is the same whatever the inputs are") for name in same]


def _plain(tensor: Tensor) -> Tensor:
    """In a type that torch compares."""
    return tensor.to(torch.float64) if tensor.dtype.is_floating_point else tensor


def _outside(looked_up: Sequence[LookUp]) -> Iterator[str]:
    for value, within, dim, numbers, size in looked_up:
        outside = int(((numbers < 0) | (numbers >= size)).sum())
        if outside:
            yield (
                f"{outside} of {numbers.numel()} numbers of '{value}' are no places along {dim} of '{within}', "
                f"which has {size}"
            )


def _about_result(name: str, exact: Tensor, rounded: Tensor) -> Iterator[Doubt]:
    if not exact.numel():
        yield Doubt(f"'{name}' has no elements", shows_nothing=True)
        return
    strange = int((~(exact.isfinite() & rounded.isfinite())).sum())
    if strange:
        text = f"{strange} of {exact.numel()} elements of '{name}' are not finite, for torch too"
        yield Doubt(text, strange == exact.numel())
    elif exact.numel() > 1 and not torch.count_nonzero(exact):
        yield Doubt(f"all {exact.numel()} elements of '{name}' are 0, for torch too")
