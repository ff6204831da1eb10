"""`take`: elements of a value at other places, which a lane has itself, another lane has, or shared memory hands on."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from wavespec.diagnostics import WavespecError, Where
from wavespec.ir.expr import const
from wavespec.ir.kernel import Memory, Op, Value
from wavespec.ir.layout import row_major
from wavespec.ops.accesses import widest_access, write_fragments
from wavespec.ops.contexts import ReferenceContext, ThreadContext, TileContext
from wavespec.ops.index_map import index_of, mapped, moved_dims, places, taken
from wavespec.ops.mapped_accesses import bound_values, indices_of
from wavespec.ops.mapped_pieces import MappedTensor, mapped_pieces
from wavespec.ops.parts_of_waves import first_of_equal
from wavespec.ops.turned_blocks import regroup
from wavespec.schema.ops.take import Take

if TYPE_CHECKING:
    from wavespec.ops.held_places import Held

_BANKS_BYTES = 128
"""Rows that are a multiple of this, eight lanes of the widest access, would start at the same bank."""


class SharedInTurns(WavespecError, code="values-not-shared"):
    def __init__(self, where: Where, name: str) -> None:
        super().__init__(
            where,
            f"'{name}' is handed on through shared memory, where waves that take turns would overwrite each other's.",
            hints=["Leave out 'order: ping_pong' of the schedule."],
        )


def to_tile(statement: Take, context: TileContext) -> None:
    value = context.names[statement.value]
    dims = value.tile.dims if statement.dims is None else statement.dims
    result = context.tile(statement.name, dims, value.tile.dtype)
    if statement.at:
        values, at = mapped(statement, context, value.tile.dims, dims)
        context.add("take", (value, *values), (result,), statement.span, node=statement.name, **at)
    else:  # dims in another order, or more of them
        context.add("cast", (value,), (result,), statement.span, node=statement.name)
    context.names[statement.name] = result


def to_thread(op: Op, context: ThreadContext) -> None:
    from wavespec.ops.held_places import held_places  # it needs numpy, which other kernels do without

    layout, name = op.result.tile.layout, op.result.name
    assert layout is not None
    held = held_places(op, context)
    found = _through_memory(op, context) if held is None else _of_lanes(op, context, held)
    context.fragments[name] = tuple(regroup(context.build, found, layout.fragment_elements, name))


def _of_lanes(op: Op, context: ThreadContext, held: Sequence[Held]) -> list[Value]:
    """Registers of this lane or of others, in runs that move together."""
    build, value, name = context.build, op.operands[0], op.result.name
    fragments = context.fragments[value.name]
    size = fragments[0].vector.elements
    found: list[Value] = []
    for one in held:
        if one.register is None:
            found.append(build.constant(0, value.tile.dtype, one.count))
            continue
        fragment, start = divmod(one.register, size)
        part = build.slice(fragments[fragment], start, one.count, name)
        found.append(build.shuffle(part, one.mask, name) if one.mask else part)
    return found


def _through_memory(op: Op, context: ThreadContext) -> list[Value]:
    """The value is laid down, and read where the places are."""
    build, machine, (value, *operands) = context.build, context.machine, op.operands
    layout, own = op.result.tile.layout, value.tile.layout
    assert layout is not None and own is not None
    roles = context.kernel.distribution.roles
    if roles.producers and roles.order == "ping_pong":
        raise SharedInTurns(op.span, op.result.name)
    memory = _memory(op, context)
    nowhere = dict.fromkeys(memory.dims, const(0))
    writers = first_of_equal(context.kernel, own) if machine.concurrent_waves else ()
    write_fragments(build, memory, own, nowhere, (), context.fragments[value.name], machine, writers=writers)
    origin = context.origin(op)
    at, moved = dict(op["at"]), moved_dims(op)
    local = {dim: at[dim] if dim in moved else index_of(dim) - origin[dim] for dim in memory.dims}
    sizes = tuple(
        context.kernel.size(dim) if dim in moved else extent
        for dim, extent in zip(memory.dims, memory.shape, strict=True)
    )
    seen = MappedTensor(replace(memory, shape=sizes), tuple(local.items()), ())
    tiles = [indices_of(origin, place) for place in layout.coordinates()]
    known = bound_values(operands, layout, context)
    pieces = mapped_pieces(seen, tiles, known, widest_access(memory, (), machine), machine)
    return [
        build.load(
            memory.name, memory.dtype, one.width, one.offset, mask=one.mask, valid=one.valid, hint=op.result.name
        )
        for one in pieces
    ]


def _memory(op: Op, context: ThreadContext) -> Memory:
    """Where a value is laid down: the dim of which lanes have neighbours last."""
    value, machine = op.operands[0], context.machine
    layout, tile = value.tile.layout, value.tile
    assert layout is not None
    dims = tuple(sorted(tile.dims, key=layout.run_length))
    extents = tuple(map(tile.extent, dims))
    row_bytes = extents[-1] * tile.dtype.bytes
    is_aligned = machine.shared.banks > 1 and row_bytes % _BANKS_BYTES == 0
    padding = machine.shared.access_bytes // tile.dtype.bytes if is_aligned else 0
    arrangement = row_major(dims, extents, padding)
    memory = Memory("", tile.dtype, dims, tuple(map(const, extents)), "shared", arrangement=arrangement, span=op.span)
    known = {one.name: one for one in (*context.kernel.memories, *context.memories)}
    for number in itertools.count():
        memory = replace(memory, name=f"{value.name}.taken{number or ''}")
        if memory.name not in known:
            context.memories.append(memory)
        if known.get(memory.name, memory) == memory:
            return memory
    raise AssertionError("names do not end")


def reference(statement: Take, context: ReferenceContext) -> None:
    value, shape = context.names[statement.value], context.dims[statement.value]
    dims = shape if statement.dims is None else statement.dims
    context.define(statement.name, dims, taken(value, *places(statement, context, shape, dims)))
