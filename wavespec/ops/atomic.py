"""`atomic`: a tile that is combined with what a tensor holds, and what that held before."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from wavespec.ops.contexts import ReferenceContext, TileContext
from wavespec.ops.index_map import mapped, places
from wavespec.ops.orders import walked
from wavespec.schema.ops import Atomic

if TYPE_CHECKING:
    import torch


def to_tile(statement: Atomic, context: TileContext) -> None:
    value = context.names[statement.value]
    shape, dtype = context.tensors[statement.to]
    values, places = mapped(statement, context, shape, value.tile.dims)
    expected = () if statement.expected is None else (context.names[statement.expected],)
    how: dict[str, Any] = {"combine": statement.combine, **({"expected": True} if expected else {})}
    old = context.tile(statement.name, value.tile.dims, dtype)
    operands = (value, *values, *expected)
    context.add("write", operands, (old,), statement.span, node=statement.name, memory=statement.to, **places, **how)
    context.names[statement.name] = old


def reference(statement: Atomic, context: ReferenceContext) -> None:
    """The old values of one order, that of the elements; or those that are told, which some order has."""
    import torch

    tensor, dims = context.computation.tensors[statement.to], context.dims[statement.value]
    dtype = context.dtype(tensor.dtype)
    value = context.names[statement.value].to(dtype)
    expected = value if statement.expected is None else context.names[statement.expected].to(dtype)
    number, inside = places(statement, context, tensor.shape, dims)
    for condition in context.conditions:
        inside = inside & context.mask(condition, dims)
    if statement.name in context.found:
        _follow(statement, context, number, inside)
        return
    held = context.output(statement.to).reshape(-1).clone()
    old = torch.zeros_like(value)
    old[inside] = _one_by_one(statement.combine, held, number[inside], value[inside], expected[inside])
    context.outputs[statement.to] = held.reshape(context.output(statement.to).shape)
    context.define(statement.name, dims, old)


def _follow(statement: Atomic, context: ReferenceContext, number: torch.Tensor, inside: torch.Tensor) -> None:
    """Go by what a call has found, and note where no order of the elements finds that."""
    found, tensor, dims = context.found[statement.name], statement.to, context.dims[statement.value]
    old, value, expected = (one[inside] for one in (found.old, found.value, found.expected))
    held, wrong = walked(
        context.tensors[tensor].reshape(-1), number[inside], old, updated(statement.combine, old, value, expected)
    )
    dtype = context.dtype(context.computation.tensors[tensor].dtype)
    context.outputs[tensor] = held.reshape(context.tensors[tensor].shape).to(dtype)
    context.define(statement.name, dims, found.old.to(dtype))
    if len(wrong):
        context.impossible.append(
            f"no order of its elements finds the old values of '{statement.name}' at {len(wrong)} places of "
            f"'{tensor}', such as its element {int(wrong[0])}"
        )
    if found.old[~inside].count_nonzero():
        context.impossible.append(f"old values of '{statement.name}' outside of '{tensor}' are not 0")


def _one_by_one(
    combine: str, held: torch.Tensor, places: torch.Tensor, value: torch.Tensor, expected: torch.Tensor
) -> torch.Tensor:
    """Combine elements with what is ``held`` at their places, in order; what was there before each."""
    import torch

    order = torch.argsort(places, stable=True)
    own = places[order]
    starts = torch.searchsorted(own, own)  # the first element of the same place
    old = torch.empty_like(value)
    if combine == "add" and not value.dtype.is_floating_point:
        sums = torch.cumsum(value[order], 0, dtype=value.dtype)
        before = sums - value[order]
        old[order] = held[own] + before - before[starts]
        held.index_add_(0, places, value)
        return old
    ranks = torch.arange(len(own), device=own.device) - starts
    ranked = order[torch.argsort(ranks, stable=True)]
    for start, end in pairwise([0, *map(int, torch.bincount(ranks).cumsum(0))]):
        one = ranked[start:end]
        old[one] = held[places[one]]  # no two of them have one place
        held[places[one]] = updated(combine, old[one], value[one], expected[one])
    return old


def updated(combine: str, held: torch.Tensor, value: torch.Tensor, expected: torch.Tensor) -> torch.Tensor:
    """What elements become that are combined with one value each."""
    return _UPDATES[combine](held, value, expected)


def _swapped(held: torch.Tensor, value: torch.Tensor, expected: torch.Tensor) -> torch.Tensor:
    import torch

    return torch.where(held == expected, value, held)


_UPDATES: Mapping[str, Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "add": lambda held, value, _: held + value,
    "max": lambda held, value, _: held.maximum(value),
    "min": lambda held, value, _: held.minimum(value),
    "and": lambda held, value, _: held & value,
    "or": lambda held, value, _: held | value,
    "xor": lambda held, value, _: held ^ value,
    "exchange": lambda held, value, _: value,
    "compare_and_swap": _swapped,
}
