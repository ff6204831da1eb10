"""A tile whose elements are at places of their own goes in; loops over a few of its registers at a time come out, so
that code is as long for a large tile as for a small one."""

from __future__ import annotations

import itertools
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from wavespec.ir.expr import const, symbol
from wavespec.ir.kernel import Memory, Op, Value
from wavespec.ir.layout import Layout, RegisterAxis, row_major
from wavespec.ops.accesses import read_fragments, write_fragments
from wavespec.ops.contexts import ThreadContext


@contextmanager
def blocks(op: Op, layout: Layout, width: int, context: ThreadContext) -> Generator[tuple[Op, Layout]]:
    """Loops over blocks of at most ``width`` registers.  Yields the layout of one block, and the operation with
    operands that have its elements as fragments; what is built meanwhile is done for every block.

    Values pass from and to the registers around the loops through private memories, which `put` and `got` access.
    """
    outer, known = context.build, dict(context.fragments)
    memories = {value.name: _laid_down(value, context) for value in op.operands}
    axes, block = _block(layout, width)
    inductions = [symbol(outer.fresh("each"), 0, axis.extent - 1) for axis in axes]
    context.symbols += inductions
    builders = list(itertools.accumulate(axes, lambda build, _: build.nested(), initial=outer))
    shifts = {
        dim: sum((at * axis.stride(dim) for at, axis in zip(inductions, axes, strict=True)), const(0))
        for dim in layout.dims
    }
    one = block.shifted(shifts)
    operands = tuple(
        replace(value, type=replace(value.tile, layout=one.projected(value.tile.dims))) for value in op.operands
    )
    context.build = builders[-1]
    for value in operands:
        context.fragments[value.name] = got(value, memories[value.name], context)
    yield replace(op, operands=operands), one
    context.build, context.fragments = outer, known
    for at, axis, outside, inside in reversed(list(zip(inductions, axes, builders, builders[1:], strict=False))):
        outside.loop(at.args[0], 0, axis.extent, 1, (), (), tuple(inside.ops), ())


def _laid_down(value: Value, context: ThreadContext) -> Memory:
    memory, layout = memory_for(value, context), value.tile.layout
    assert layout is not None
    put(memory, layout, context.fragments[value.name], context)
    return memory


def put(memory: Memory, layout: Layout, values: Sequence[Value], context: ThreadContext) -> None:
    """Store registers where they belong in the memory of a tile."""
    write_fragments(context.build, memory, layout, dict.fromkeys(memory.dims, const(0)), (), values, context.machine)


def got(value: Value, memory: Memory, context: ThreadContext) -> tuple[Value, ...]:
    """Load the registers of a value from where they belong in the memory of a tile."""
    assert value.tile.layout is not None
    nowhere = dict.fromkeys(memory.dims, const(0))
    return read_fragments(context.build, memory, value.tile.layout, nowhere, (), value.name, context.machine)


def memory_for(value: Value, context: ThreadContext) -> Memory:
    """A private memory for all registers of a value: the dim of which they are neighbours last."""
    tile = value.tile
    assert tile.layout is not None
    dims = tuple(sorted(tile.dims, key=tile.layout.run_length))
    extents = tuple(map(tile.extent, dims))
    sizes, arrangement = tuple(map(const, extents)), row_major(dims, extents)
    memory = Memory(f"{value.name}.elements", tile.dtype, dims, sizes, "private", arrangement=arrangement)
    if memory not in context.memories:  # a loop that is repeated names its values again
        assert memory.name not in {other.name for other in context.memories}, memory.name
        context.memories.append(memory)
    return memory


def _block(layout: Layout, width: int) -> tuple[list[RegisterAxis], Layout]:
    """The axes to loop over, and the layout of what is left: some of the fastest registers."""
    axes = [axis for axis in layout.axes if axis.extent > 1]
    if not axes:
        return [], replace(layout, axes=(), inner=0)
    last = axes.pop()
    size = next(size for size in range(min(width, last.extent), 0, -1) if last.extent % size == 0)
    if size < last.extent:
        strides = tuple((dim, stride * size) for dim, stride in last.strides)
        axes.append(RegisterAxis(last.extent // size, strides))
    return axes, replace(layout, axes=(RegisterAxis(size, last.strides),), inner=1)
