"""A tile that no matrix product distributes in, its layout out: neighbouring lanes take neighbouring elements."""

from __future__ import annotations

from typing import Final

from wavespec.ir.expr import Expr, const
from wavespec.ir.kernel import Kernel, Memory, TileType
from wavespec.ir.layout import Layout, RegisterAxis
from wavespec.ir.names import dim_of_wave, wave_name
from wavespec.ir.tile_ops import READ, WRITE
from wavespec.ops.index_map import contiguous_dim
from wavespec.ops.line_ends import takes_ends_apart
from wavespec.targets.machine import Machine

_COMPUTED_BYTES = 4
"""Of one element while it is computed with."""
_CODE_BITS: Final = 8
"""Of elements that are decoded."""


def spread_tile(
    kernel: Kernel, tile: TileType, machine: Machine, *, by_all_waves: bool = False, contiguous: str = ""
) -> Layout:
    """Waves take their parts of the tile, and with ``by_all_waves`` those that would have the same part share it out;
    lanes run along the contiguous dim first, the one of memory unless it is said, a widest access each, or the vector
    that the spec asks for, then along the others from the last to the first; what is left are registers.  Lanes beyond
    the tile repeat others.

    Numbers of lanes along a dim are powers of two, so that bits of the lane number tell places along one dim apart.
    """
    counts = dict(kernel.waves)
    extents = {dim: tile.extent(dim) // kernel.waves_along(dim) for dim in tile.dims}
    column = contiguous or _contiguous(kernel, tile)
    steps = {split.dim: split.tile for split in kernel.distribution.vectors if split.dim in extents}
    # A lane that has all elements has vectors along the contiguous dim as well; others may have single ones on purpose.
    if column and (not kernel.distribution.vectors or (kernel.lanes == 1 and column not in steps)):
        width = _width(kernel, tile, column, machine)
        while extents[column] % width:
            width //= 2
        steps[column] = width
    order = [dim for dim in (column, *reversed(tile.dims)) if dim]
    free, inner = kernel.lanes, dict[str, tuple[Expr, int]]()
    lane = kernel.symbol("lane")
    for name, count in reversed(kernel.waves) if by_all_waves and machine.concurrent_waves else ():
        if dim_of_wave(name) not in tile.dims:
            lane, free = lane + kernel.symbol(name) * free, free * count
    for dim in dict.fromkeys(order):
        step = steps.get(dim, 1)
        along = _power_of_two(extents[dim] // step, free)
        inner[dim] = (lane % along * step if along > 1 else const(0), along * step)
        lane, free = lane // along, free // along
    waves = {dim: kernel.symbol(wave_name(dim)) * extents[dim] for dim in tile.dims if wave_name(dim) in counts}
    base = tuple((dim, inner[dim][0] + waves.get(dim, const(0))) for dim in tile.dims)
    rows_first = (*(dim for dim in tile.dims if dim != column), *((column,) if column else ()))
    axes = tuple(RegisterAxis(steps[dim], ((dim, 1),)) for dim in rows_first if steps.get(dim, 1) > 1)
    layout = Layout(base, axes, len(axes))
    for dim in rows_first:
        if (count := extents[dim] // inner[dim][1]) > 1:
            layout = layout.repeated(dim, count, inner[dim][1])
    return layout


def _power_of_two(extent: int, most: int) -> int:
    """The largest that divides ``extent`` and is at most ``most``."""
    return min(extent & -extent, 1 << most.bit_length() - 1)


def _contiguous(kernel: Kernel, tile: TileType) -> str:
    """The dim whose neighbours are so in memory, of the first tensor that has all of the tile's dims, or some."""
    found = [(dim, along) for dim, _, along in _accessed(kernel) if dim in tile.dims]
    found.sort(key=lambda one: not set(tile.dims) <= one[1])
    return found[0][0] if found else tile.dims[-1] if tile.dims else ""


def _accessed(kernel: Kernel) -> list[tuple[str, Memory, set[str]]]:
    """The memories that are accessed, tensors first, those with tiles of more dims before others, each with the dim
    whose neighbours are neighbours there, and with all dims along which elements are: those of what is
    read by a mapping may have other names than the tensor's."""
    ops = [(op, kernel.memory(op["memory"])) for op in kernel.walk() if op.is_(READ, WRITE)]
    ops.sort(key=lambda one: (one[1].space != "global", -len((*one[0].results, *one[0].operands)[0].tile.dims)))
    along = [{*memory.dims, *(op.result.tile.dims if op.is_(READ) and op.get("at") else ())} for op, memory in ops]
    return [(contiguous_dim(op, memory), memory, dims) for (op, memory), dims in zip(ops, along, strict=True)]


def _width(kernel: Kernel, tile: TileType, column: str, machine: Machine) -> int:
    """Elements of the widest access to any tensor that its rows allow, or of a vector register where there are some."""
    if not column:
        return 1
    if machine.vector_bytes:
        return machine.vector_bytes // _element_bytes(kernel, tile)
    around = [kernel.memory(op["memory"]) for op in kernel.walk() if op.get("around")]
    if around and column == around[0].contiguous_dim:  # they are aligned, whatever their rows are
        return machine.globals.access_bytes // min(memory.dtype.bytes for memory in around)
    along = [memory for dim, memory, _ in _accessed(kernel) if dim == column]
    width = machine.globals.access_bytes // min((memory.dtype.bytes for memory in along), default=tile.dtype.bytes)
    # What lanes read in two accesses the first one brings into the cache; of what is written half sectors are two.
    written = {op["memory"] for op in kernel.walk() if op.is_(WRITE)}
    results = [memory for memory in along if memory.space == "global" and memory.name in written]
    widest = max((memory.dtype.bytes for memory in results), default=1)
    width = min(width, machine.globals.access_bytes // widest)
    # Rows that may start anywhere are read element by element, so that lanes had better take neighbours.
    while width > 1 and not all(_is_accessed_at_once(memory, width, machine) for memory in along):
        width //= 2
    return width


def _element_bytes(kernel: Kernel, tile: TileType) -> int:
    """As it is computed with; of what is decoded and laid down for a product, as that takes it."""
    accesses = [op for op in kernel.walk() if op.is_(READ, WRITE)]
    tiles = [(op, (*op.results, *op.operands)[0].tile.dims, kernel.memory(op["memory"])) for op in accesses]
    own = [(op, memory) for op, dims, memory in tiles if dims == tile.dims]
    staged = [memory.dtype.bytes for op, memory in own if op.is_(WRITE) and memory.space == "shared"]
    is_decoded = any(op.is_(READ) and memory.dtype.bits <= _CODE_BITS for op, memory in own)
    return min(staged, default=_COMPUTED_BYTES) if is_decoded else _COMPUTED_BYTES


def _is_accessed_at_once(memory: Memory, width: int, machine: Machine) -> bool:
    is_aligned = machine.globals.aligned(memory.row_divisor, width, memory.dtype.stored_bits)
    return is_aligned or takes_ends_apart(memory, width, machine)
