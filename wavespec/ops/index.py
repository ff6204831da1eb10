"""`index`: the coordinates along a dim, which the layout knows."""

from __future__ import annotations

from wavespec.ir.expr import const
from wavespec.ir.kernel import Op, Value
from wavespec.ops.contexts import ReferenceContext, ThreadContext, TileContext
from wavespec.schema.ops import Index


def to_tile(statement: Index, context: TileContext) -> None:
    value = context.tile(statement.name, (statement.dim,), statement.dtype)
    context.add("index", (), (value,), statement.span, node=statement.name, dim=statement.dim)
    context.names[statement.name] = value


def to_thread(op: Op, context: ThreadContext) -> None:
    layout, dtype = op.result.tile.layout, op.result.tile.dtype
    assert layout is not None
    start, size = context.origin(op)[op["dim"]], layout.fragment_elements
    places = [start + coordinate.get(op["dim"], const(0)) for coordinate in layout.coordinates()]
    fragments: list[Value] = []
    for first in range(0, len(places), size):
        made = context.build.value(op.result.name, dtype, size)
        context.build.add("coordinates", (), (made,), places=tuple(places[first : first + size]))
        fragments.append(made)
    context.fragments[op.result.name] = tuple(fragments)


def reference(statement: Index, context: ReferenceContext) -> None:
    import torch

    device = next(iter(context.tensors.values())).device
    places = torch.arange(context.sizes[statement.dim], dtype=context.dtype(statement.dtype), device=device)
    context.define(statement.name, (statement.dim,), places)
