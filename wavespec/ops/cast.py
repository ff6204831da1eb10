"""`cast`: every element in another type; also the same elements with other dims, as `take` has them."""

from __future__ import annotations

from collections.abc import Sequence

from wavespec.ir.dtype import DTYPES
from wavespec.ir.kernel import Op, Value
from wavespec.ir.thread import ThreadBuilder
from wavespec.ops.broadcast import broadcast_fragments
from wavespec.ops.contexts import ReferenceContext, ThreadContext, TileContext
from wavespec.ops.elementwise import piecewise
from wavespec.ops.small_floats import converted, is_written, nearest
from wavespec.ops.steps import Steps
from wavespec.schema.ops import Cast
from wavespec.targets.machine import Machine


def to_tile(statement: Cast, context: TileContext) -> None:
    value = context.names[statement.value]
    result = context.tile(statement.name, value.tile.dims, statement.dtype)
    context.add("cast", (value,), (result,), statement.span, node=statement.name)
    context.names[statement.name] = result


def to_thread(op: Op, context: ThreadContext) -> None:
    (value,), result, layout = op.operands, op.result, op.result.tile.layout
    build, dtype = context.build, op.result.tile.dtype
    assert layout is not None
    fragments = broadcast_fragments(context.build, value, context.fragments[value.name], layout)
    bias = op.get("bias", 0)
    if result.tile.dtype == value.tile.dtype and not bias:  # another name for the value
        context.fragments[result.name] = fragments
        return

    if _is_found_in_table(value, result, context.machine):
        context.fragments[result.name] = _found_in_table(build, fragments, result, context.machine)
        return

    def piece(value: Value) -> Value:
        number = _four_bits(build, value, result.name) if dtype.name == "i4" else value
        return converted(build, number, dtype, context.machine, result.name, bias)

    context.fragments[result.name] = piecewise(context, [fragments], result, piece)


def _is_found_in_table(value: Value, result: Value, machine: Machine) -> bool:
    """Whether bf16 come from a table of what codes of 8 bits without their sign stand for, whole vectors at a time."""
    layout = result.tile.layout
    assert layout is not None
    has_table = bool(machine.word_tables) and may_be_in_table(value, result)
    return has_table and layout.elements * DTYPES["bf16"].bytes % machine.vector_bytes == 0


_IN_TABLES = ("f8e4m3fn", "f8e5m2")


def may_be_in_table(value: Value, result: Value) -> bool:
    """Whether a cast is one that machines may have tables for."""
    return value.tile.dtype.name in _IN_TABLES and result.tile.dtype.name == "bf16"


def _found_in_table(
    build: ThreadBuilder, fragments: Sequence[Value], result: Value, machine: Machine
) -> tuple[Value, ...]:
    """The fragments by way of vectors of the machine, however long they are."""
    dtype, layout = result.tile.dtype, result.tile.layout
    assert layout is not None
    codes, size = build.pack(list(fragments)), layout.fragment_elements
    by_bytes = bool(machine.byte_tables) and layout.elements % machine.vector_bytes == 0
    width = machine.vector_bytes // (1 if by_bytes else dtype.bytes)
    vectors = (build.slice(codes, start, width, result.name) for start in range(0, layout.elements, width))
    words = build.pack([build.cast(one, dtype, result.name) for one in vectors], result.name)
    return tuple(build.slice(words, start, size, result.name) for start in range(0, layout.elements, size))


def _four_bits(build: ThreadBuilder, value: Value, hint: str) -> Value:
    """As bytes whose upper half is the sign, which is how registers hold i4."""
    whole = build.cast(value, DTYPES["i8"], hint)
    steps = Steps(build, whole, hint)
    return steps("shr", steps("shl", whole, 4), 4)


def reference(statement: Cast, context: ReferenceContext) -> None:
    """To an integer the number is cut off, a whole one to its lowest bits; a floating point type that is computed in
    stays. To a type of tensors it is rounded in any case, by way of f32."""
    value, dtype = context.names[statement.value], statement.dtype
    made = (nearest(value, dtype) if is_written(DTYPES[dtype]) else value).to(context.dtype(dtype))
    if dtype == "i4":  # held as i8
        made = ((made & 15) ^ 8) - 8
    context.define(statement.name, context.dims[statement.value], made)
