"""The shared memories of a kernel whose workgroups go on with other tiles in; the same with room for the next tile of
what is read in front of loops out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from wavespec.ir.kernel import Kernel, Memory
from wavespec.ir.layout import swizzled_slabs
from wavespec.ir.tile_ops import MMA, WRITE
from wavespec.ops.staged_writes import begins_anywhere, shared_bytes


def with_next_tiles(
    kernel: Kernel, memories: Mapping[str, Memory], tiles: Mapping[str, str], room: int
) -> dict[str, Memory]:
    """The memories with a second buffer for what is read in front of loops, where there is room and a schedule does not
    ask for one.

    Where a schedule asks for two buffers and there is room without what results leave through, these leave through
    the buffer of the tile that they are made of.

    Args:
        memories: by name.
        tiles: of which tensors those are that are filled in front of loops.
        room: bytes that nothing has yet.
    """
    found, asked = dict(memories), dict(kernel.distribution.roles.buffers)
    for name, tensor in tiles.items():
        if asked.get(tensor) == 1:
            continue
        room -= shared_bytes(found[name])
        staged = [memory for memory in found.values() if not memory.staged and not memory.shares]
        freed = sum(map(shared_bytes, staged))
        if asked.get(tensor, 1) > 1 and -freed <= room < 0:
            inside = _results_inside(kernel, found[name], staged)
            found |= {memory.name: memory for memory in inside}
            room += freed if inside else 0
        if room >= 0:
            found[name] = replace(found[name], buffers=2)
    return found


def _results_inside(kernel: Kernel, tile: Memory, staged: Sequence[Memory]) -> tuple[Memory, ...]:
    """What results leave through with the bytes of ``tile``, a slab for each of its own; nothing where it cannot be.

    Each wave lays its rows over those that it alone has read: the waves share out the rows of the tile, which are those
    of the only result, and no product follows.
    """
    ops = [op for op in kernel.walk() if op.is_(MMA, WRITE)]
    if len(staged) != 1 or not ops[-1].is_(WRITE) or sum(op.is_(WRITE) for op in ops) != 1:
        return ()
    (memory,), (row, column) = staged, staged[0].dims
    alike = (memory.dtype.bits, row, memory.shape[0]) == (tile.dtype.bits, tile.dims[0], tile.shape[0])
    if not alike or kernel.waves_along(row) != kernel.wave_count or not begins_anywhere(memory):
        return ()
    slabs = ops[-1].operands[0].tile.extent(column) // memory.shape[1].value
    if not _is_in_slabs(tile) or not _is_in_slabs(memory) or slabs * memory.shape[1].value > tile.shape[1].value:
        return ()
    return (replace(memory, shares=tile.name, buffers=slabs),)


def _is_in_slabs(memory: Memory) -> bool:
    rows, columns = (extent.value for extent in memory.shape)
    (row, column), bits = memory.dims, memory.dtype.bits
    return memory.arrangement == swizzled_slabs((row, column), (rows, columns), bits)
