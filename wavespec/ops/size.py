"""`size`: how many elements there are along a dim, which every launch is told."""

from __future__ import annotations

from wavespec.ir.dtype import DTYPES
from wavespec.ir.kernel import Op
from wavespec.ops.contexts import ReferenceContext, ThreadContext, TileContext
from wavespec.schema.ops import Size


def to_tile(statement: Size, context: TileContext) -> None:
    value = context.tile(statement.name, (), statement.dtype)
    context.add("size", (), (value,), statement.span, node=statement.name, extent=context.sizes[statement.dim])
    context.names[statement.name] = value


def to_thread(op: Op, context: ThreadContext) -> None:
    """A coordinate like others: the first one beyond the dim."""
    name, dtype = op.result.name, op.result.tile.dtype
    made = context.build.value(name, DTYPES["i32"] if dtype.is_float else dtype, 1)
    context.build.add("coordinates", (), (made,), places=(op["extent"],))
    context.fragments[name] = (context.build.cast(made, dtype, name),)


def reference(statement: Size, context: ReferenceContext) -> None:
    import torch

    device = next(iter(context.tensors.values())).device
    size = torch.tensor(context.sizes[statement.dim], dtype=context.dtype(statement.dtype), device=device)
    context.define(statement.name, (), size)
