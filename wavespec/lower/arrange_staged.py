"""A staged tile and what reads it in, the same with the arrangement that suits the machine and the reader out."""

from __future__ import annotations

from dataclasses import replace

from wavespec.diagnostics import WavespecError, Where
from wavespec.ir.kernel import Memory, Op
from wavespec.ir.layout import Arrangement, Swizzle, panels, row_major, swizzled_slabs
from wavespec.lower.choose_instructions import instruction_of
from wavespec.targets.machine import Machine
from wavespec.targets.matrix_instruction import Fragment

# Eight lanes of the widest access.  A machine may serve them together whatever it has of banks, so rows are kept apart
# within this length first, and within a pass over all banks second.
_HALF_WAY_BYTES = 128


class UnitTile(WavespecError, code="unit-tile"):
    def __init__(self, where: Where, tile: Memory, row_bytes: int) -> None:
        super().__init__(
            where,
            f"A row of the tile of '{tile.name.partition('.')[0]}' takes {row_bytes} bytes; "
            "the matrix unit reads rows of 32, 64 or a multiple of 128 bytes.",
            hints=[f"Use a tile of '{tile.contiguous_dim}' of {128 // tile.dtype.bytes} elements, or twice that."],
        )


def arrange_staged(
    tile: Memory,
    product: Op | None,
    fragment: Fragment | None,
    machine: Machine,
    where: Where,
    *,
    across: bool = False,
) -> Memory:
    """The staged ``tile`` with an arrangement; ``where`` is the place of what it is a tile of.

    Panels where a register tile reads whole vectors across rows, else rows kept off each other's banks or cache sets.

    Args:
        across: whether lanes read along its rows' neighbours: of each as many rows as a vector has elements.
    """
    arrangement = _arrangement(tile, product, fragment, machine, where)
    if across and arrangement.swizzle is not None:
        # Lanes side by side are then `width` rows apart, which have their chunks at one place but for this.
        arrangement = replace(arrangement, swizzle=replace(arrangement.swizzle, fold=arrangement.swizzle.width))
    return replace(tile, arrangement=arrangement)


def _arrangement(
    tile: Memory, product: Op | None, fragment: Fragment | None, machine: Machine, where: Where
) -> Arrangement:
    extents, column, bytes_ = tuple(extent.value for extent in tile.shape), tile.contiguous_dim, tile.dtype.bytes
    if product is not None and fragment is not None and machine.shared.arrangement == "panels":
        free = next(dim for dim in tile.dims if dim != product["k"])
        role = "m" if free == product["m"] else "n"
        block = next((axis.extent for axis in fragment.layout.axes if axis.stride(role) == 1), 1)
        depth_block = next((axis.extent for axis in fragment.layout.axes if axis.stride("k") == 1), 1)
        if fragment.layout.axes and fragment.in_panels:
            sizes = dict(zip(tile.dims, extents, strict=True))
            return panels(free, sizes[free], block, product["k"], sizes[product["k"]], depth_block)
    if product is not None and instruction_of(product, machine).reads_shared:
        return _read_by_unit(tile, bytes_, where)
    if machine.shared.spread == "padding":
        return row_major(tile.dims, extents, machine.shared.bank_bytes // bytes_)
    arrangement = row_major(tile.dims, extents)
    chunk = machine.shared.access_bytes // bytes_
    chunks = extents[-1] // chunk
    if machine.shared.spread == "swizzle" and chunks > 1 and chunks & (chunks - 1) == 0 and extents[-1] % chunk == 0:
        # Rows that share one pass over all banks are told apart by their place in it, the others by the swizzle.
        row_bytes, line_bytes = extents[-1] * bytes_, machine.shared.banks * machine.shared.bank_bytes
        fold = line_bytes // _HALF_WAY_BYTES if row_bytes < line_bytes else 1
        line_bytes //= fold
        width = min(chunks, line_bytes // machine.shared.access_bytes)
        swizzle = Swizzle(tile.dims[-2], column, chunk, width, max(1, line_bytes // row_bytes), fold)
        return replace(arrangement, swizzle=swizzle)
    return arrangement


def _read_by_unit(tile: Memory, bytes_: int, where: Where) -> Arrangement:
    (row, column), (height, width) = tile.dims, (extent.value for extent in tile.shape)
    row_bytes = width * bytes_
    if row_bytes % 128 and row_bytes not in (32, 64):
        raise UnitTile(where, tile, row_bytes)
    return swizzled_slabs((row, column), (height, width), 8 * bytes_)
