"""What each lane reads of a tensor where that is one block of memory in another order, such as all taps of a few
channels; its wide loads out, handed out as the layout wants them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise

from wavespec.ir.expr import const
from wavespec.ir.kernel import Memory, Value
from wavespec.ir.layout import Layout
from wavespec.ir.thread import Mask, ThreadBuilder
from wavespec.ops.accesses import Coordinates, coordinates_in, edge, is_aligned, widest_access
from wavespec.targets.machine import Machine


def read_block(
    build: ThreadBuilder,
    memory: Memory,
    layout: Layout,
    origin: Coordinates,
    masked: Sequence[str],
    hint: str,
    machine: Machine,
) -> tuple[Value, ...] | None:
    """The fragments of a tile; None where a lane's part of it is no block, or is one in this order already."""
    strides = _strides(memory)
    if memory.space != "global" or not strides or layout.run_length(memory.contiguous_dim) > 1:
        return None
    first = coordinates_in(memory, origin, layout.coordinates(max(1, layout.elements))[0])
    slowest = _slowest_of_block(layout, strides)
    mask = _mask(memory, layout, first, masked, slowest) if slowest else None
    start, widest = memory.offset(first), widest_access(memory, (), machine)
    while layout.elements % widest or (widest > 1 and not is_aligned(memory, start.divisor, widest, machine)):
        widest //= 2
    if mask is None or widest == 1:
        return None
    lines = [
        build.load(memory.name, memory.dtype, widest, start + at, mask=mask, hint=hint)
        for at in range(0, layout.elements, widest)
    ]
    places = [sum(place[dim] * strides[dim] for dim in place) for place in layout.register_offsets()]
    parts = [build.slice(lines[at // widest], at % widest, 1, hint) for at in places]
    size = layout.fragment_elements
    return tuple(build.pack(parts[at : at + size], hint) for at in range(0, len(parts), size))


def _strides(memory: Memory) -> dict[str, int]:
    """How far apart neighbours along the dims of a plain tensor are, where that is a number."""
    if memory.arrangement is not None or memory.is_strided or memory.is_packed:
        return {}
    found, stride = dict[str, int](), const(1)
    for dim, size in reversed(list(zip(memory.dims, memory.shape, strict=True))):
        if not stride.is_const:
            break
        found[dim] = stride.value
        stride = stride * size
    return found


def _slowest_of_block(layout: Layout, strides: Mapping[str, int]) -> str:
    """The dim along which a lane's registers are furthest apart, if all of them together are one block."""
    if any(len(axis.strides) != 1 or axis.strides[0][0] not in strides for axis in layout.axes):
        return ""
    steps = [(step * strides[dim], axis.extent, dim) for axis in layout.axes for dim, step in axis.strides]
    steps = sorted(one for one in steps if one[1] > 1)
    if not steps or steps[0][0] != 1:
        return ""
    follow = all(step * extent == further for (step, extent, _), (further, *_) in pairwise(steps))
    return steps[-1][2] if follow else ""


def _mask(memory: Memory, layout: Layout, first: Coordinates, masked: Sequence[str], slowest: str) -> Mask | None:
    """The checks of all of a block; None where some of it may be inside, and some outside."""
    sizes = dict(zip(memory.dims, memory.shape, strict=True))
    extents = {dim: math.prod(axis.extent for axis in layout.axes if axis.stride(dim)) for dim in memory.dims}
    for dim in masked:
        extent = extents.get(dim, 1)
        together = dim == slowest and not first[dim].divisor % extent and not sizes[dim].divisor % extent
        if extent > 1 and not together:
            return None
    return edge(memory, masked, first, 1)[0]
