"""`cast`: every element in another type; also the same elements with other dims, as `take` has them."""

from __future__ import annotations

from wavespec.ir.kernel import Op, Value
from wavespec.ops.broadcast import broadcast_fragments
from wavespec.ops.contexts import ReferenceContext, ThreadContext, TileContext
from wavespec.ops.elementwise import piecewise
from wavespec.ops.small_floats import is_small_float, small_to_f32
from wavespec.schema.ops import Cast


def to_tile(statement: Cast, context: TileContext) -> None:
    value = context.names[statement.value]
    result = context.tile(statement.name, value.tile.dims, statement.dtype)
    context.add("cast", (value,), (result,), statement.span, node=statement.name)
    context.names[statement.name] = result


def to_thread(op: Op, context: ThreadContext) -> None:
    (value,), result, layout = op.operands, op.result, op.result.tile.layout
    assert layout is not None
    fragments = broadcast_fragments(context.build, value, context.fragments[value.name], layout)
    if result.tile.dtype == value.tile.dtype:  # another name for the value
        context.fragments[result.name] = fragments
        return

    def piece(value: Value) -> Value:
        if is_small_float(value.vector.dtype):
            value = small_to_f32(context.build, value, result.name)
        return context.build.cast(value, result.tile.dtype, result.name)

    context.fragments[result.name] = piecewise(context, [fragments], result, piece)


def reference(statement: Cast, context: ReferenceContext) -> None:
    """To an integer the number is cut off; a floating point type that is computed in stays."""
    value = context.names[statement.value]
    context.define(statement.name, context.dims[statement.value], value.to(context.dtype(statement.dtype)))
