"""`register`: a tile filled with one number."""

from __future__ import annotations

from wavespec.ir.kernel import Op
from wavespec.ops.contexts import ReferenceContext, ThreadContext, TileContext
from wavespec.schema.ops import Register


def to_tile(statement: Register, context: TileContext) -> None:
    value = context.tile(statement.name, statement.shape, statement.dtype)
    number = float(statement.value) if value.tile.dtype.is_float else int(statement.value)
    context.add("register", (), (value,), statement.span, value=number)
    context.names[statement.name] = value


def to_thread(op: Op, context: ThreadContext) -> None:
    layout = op.result.tile.layout
    assert layout is not None
    size = layout.fragment_elements
    value = context.build.constant(op["value"], op.result.tile.dtype, size, op.result.name)
    context.fragments[op.result.name] = (value,) * (layout.elements // size)


def reference(statement: Register, context: ReferenceContext) -> None:
    import torch

    shape = [context.sizes[dim] for dim in statement.shape]
    value = torch.full(shape, statement.value, dtype=context.dtype(statement.dtype))
    context.define(statement.name, statement.shape, value)
