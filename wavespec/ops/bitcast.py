"""`bitcast`: the bits of every element as another type."""

from __future__ import annotations

from wavespec.ir.kernel import Op
from wavespec.ops.contexts import ReferenceContext, ThreadContext, TileContext
from wavespec.schema.ops import Bitcast


def to_tile(statement: Bitcast, context: TileContext) -> None:
    value = context.names[statement.value]
    result = context.tile(statement.name, value.tile.dims, statement.dtype)
    context.add("bitcast", (value,), (result,), statement.span, node=statement.name)
    context.names[statement.name] = result


def to_thread(op: Op, context: ThreadContext) -> None:
    result = op.result
    context.fragments[result.name] = tuple(
        context.build.bitcast(value, result.tile.dtype, result.name) for value in context.fragments[op.operands[0].name]
    )


def reference(statement: Bitcast, context: ReferenceContext) -> None:
    """The bits are those of the types of the spec, whatever is computed in."""
    import torch

    def of_spec(name: str) -> torch.dtype:
        return torch.float8_e8m0fnu if name == "f8e8m0fnu" else context.plain(name)

    value, own = context.names[statement.value], context.types[statement.value]
    bits = value.to(of_spec(own)).contiguous().view(of_spec(statement.dtype))
    context.define(statement.name, context.dims[statement.value], bits.to(context.dtype(statement.dtype)))
