"""A kernel whose writes combine goes in; along which axes of its grid workgroups have elements of their own comes out,
and a tile that is combined element run by element run, where one workgroup has all that may name the same elements."""

from __future__ import annotations

from collections import Counter

from wavespec.ir.dtype import DTYPES
from wavespec.ir.kernel import Kernel, Op, Value
from wavespec.ir.thread import Mask
from wavespec.ir.tile_ops import WRITE
from wavespec.ops.contexts import ThreadContext
from wavespec.ops.index_map import index_of
from wavespec.ops.mapped_accesses import tile_pieces, widest_mapped
from wavespec.targets.machine import Machine

_COMPUTED = "f32"


def axes_apart(kernel: Kernel, machine: Machine) -> tuple[int, ...]:
    """Axes along which no two workgroups combine with the same element, whatever values say: those of dims that are
    places themselves.  None where lanes or waves run side by side, or the old values of elements are used.

    Each atomic step of a CPU takes as long as a vector of others, so that one workgroup for all tiles along the other
    axes is faster than many that have to take care of each other.
    """
    plan = kernel.distribution
    writes = [op for op in kernel.walk() if op.is_(WRITE) and op.get("combine")]
    if machine.lanes > 1 or machine.concurrent_waves or plan.persistent or kernel.cluster > 1:
        return ()
    if any(op.results or op.get("through") or not op.get("at") for op in writes):
        return ()
    dims_on = Counter(split.axis for split in plan.workgroup)
    found = {split.axis for split in plan.workgroup if dims_on[split.axis] == 1 and split.order is None}
    for op in writes:
        own = {dim for dim, place in op["at"] if place is index_of(dim)}
        found &= {split.axis for split in plan.workgroup if split.dim in own}
    return tuple(sorted(found)) if writes else ()


def combine_own(op: Op, function: str, mask: Mask, axes: tuple[int, ...], context: ThreadContext) -> None:
    """Load, combine and store one run of elements after the other: what comes later may be the same ones."""
    memory, build, layout = context.kernel.memory(op["memory"]), context.build, op.operands[0].tile.layout
    assert layout is not None
    size, fragments = layout.fragment_elements, context.fragments[op.operands[0].name]
    dtype = DTYPES[_COMPUTED] if memory.dtype.is_float and memory.dtype.bits < DTYPES[_COMPUTED].bits else memory.dtype

    def joined(held: Value, value: Value) -> Value:
        wide = [build.cast(one, dtype) for one in (held, build.cast(value, memory.dtype))]
        return build.cast(build.elementwise(function, *wide), memory.dtype)

    for piece in tile_pieces(op, layout, op.operands[1:], min(widest_mapped(op, context), size), context):
        number, first = divmod(piece.register, size)
        value = build.slice(fragments[number], first, piece.width)
        inside = (*mask, *piece.mask)
        held = build.load(memory.name, memory.dtype, piece.width, piece.offset, mask=inside, valid=piece.valid)
        new = joined(held, value)
        build.store(new, memory.name, piece.offset, mask=inside, valid=piece.valid, apart=axes)
