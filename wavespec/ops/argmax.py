"""The places of extremes: the largest rank along a dim, word by word, by the reduction `max`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wavespec.ir.kernel import Value
from wavespec.ops.contexts import ReferenceContext, TileContext
from wavespec.ops.ranks import Ranks
from wavespec.schema.ops.argmax import ArgReduce

if TYPE_CHECKING:
    import torch


def to_tile(statement: ArgReduce, context: TileContext) -> None:
    name, value = statement.name, context.names[statement.value]
    ranks = Ranks(context, name, statement.span, largest=statement.row.largest)
    rank, start = ranks.along(value, statement.dim), None
    if statement.init is not None:
        place, extreme = (context.names[start] for start in statement.init)
        start = ranks.of(extreme, place)
    dims = tuple(dim for dim in value.tile.dims if dim != statement.dim)
    found: list[Value] = []
    for number, word in enumerate(rank):
        operands = [word] if start is None else [word, start[number]]
        if found:
            parts = [rank] if start is None else [rank, start]
            operands = [ranks.among_largest(words[number - 1], found[-1], words[number]) for words in parts]
        found.append(context.tile(f"{name}_found", dims, word.tile.dtype))
        context.add(
            "reduce",
            tuple(operands),
            (found[-1],),
            statement.span,
            node=name,
            dim=statement.dim,
            function="maximum",
            divided=False,
        )
    context.names[name] = ranks.places(name, found, statement.dtype)
    if statement.extreme is not None:
        context.names[statement.extreme] = ranks.elements(statement.extreme, found, value.tile.dtype)


def reference(statement: ArgReduce, context: ReferenceContext) -> None:
    value, dims = context.names[statement.value], context.dims[statement.value]
    axis, kept = dims.index(statement.dim), tuple(dim for dim in dims if dim != statement.dim)
    start = None
    if statement.init is not None:
        places, extremes = (
            context.names[name].permute([context.dims[name].index(dim) for dim in kept]).unsqueeze(axis)
            for name in statement.init
        )
        start = extremes, places
    found, place = first_of(value, axis, 1, start, largest=statement.row.largest)
    context.define(statement.name, kept, place.squeeze(axis).to(context.plain(statement.dtype)))
    if statement.extreme is not None:
        context.define(statement.extreme, kept, found.squeeze(axis))


def first_of(
    value: torch.Tensor,
    axis: int,
    count: int,
    start: tuple[torch.Tensor, torch.Tensor] | None,
    place: torch.Tensor | None = None,
    *,
    largest: bool,
) -> tuple[torch.Tensor, torch.Tensor]:
    """The ``count`` largest or smallest elements along an axis and their places, NaN before all, of equal ones those of
    the first places; ``start``: further ones with their places; ``place``: where the elements are, if not where they
    lie."""
    import torch

    shape = [extent if at == axis else 1 for at, extent in enumerate(value.shape)]
    if place is None:
        place = torch.arange(value.shape[axis]).reshape(shape).expand(value.shape)
    if start is not None:
        value, place = (torch.cat(both, axis) for both in ((start[0], value), (start[1].long(), place.long())))
    # A stable sort keeps the order of places, and puts NaN last, or first where it is descending.
    by_place = place.argsort(dim=axis, stable=True)
    value, place = value.gather(axis, by_place), place.gather(axis, by_place)
    number = value.to(torch.int32) if value.dtype is torch.bool else value
    if not largest and value.is_floating_point():
        number = torch.where(number.isnan(), -float("inf"), number)
    order = number.argsort(dim=axis, stable=True, descending=largest)
    if not largest and value.is_floating_point():  # NaN goes before -inf
        order = order.gather(axis, (~value.gather(axis, order).isnan()).to(torch.int8).argsort(dim=axis, stable=True))
    order = order.narrow(axis, 0, min(count, value.shape[axis]))
    return value.gather(axis, order), place.gather(axis, order)
