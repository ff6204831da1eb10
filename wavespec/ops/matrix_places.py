"""Tiles of shared memory in, the matrices that a lane loads and stores together with others, and their places, out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from wavespec.ir.dtype import DType
from wavespec.ir.expr import Expr, const, symbol
from wavespec.ir.kernel import Memory
from wavespec.ir.layout import Layout, RegisterAxis
from wavespec.targets.machine import Machine

Coordinates = Mapping[str, Expr]
_MATRIX_ROWS = 8  # rows of one matrix of a matrix load: 8 lanes give addresses, 32 receive
_MATRIX_LANES = 32  # that move a matrix together
_MATRIX_ROW_BYTES, _MATRIX_PART_BYTES = 16, 4  # of one row, and what each of 4 lanes receives of it
_MATRIX_TURNED_BYTES = 2  # of an element, where a matrix load exchanges rows and columns


def moves_matrices(memory: Memory, layout: Layout, machine: Machine) -> bool:
    """Whether lanes hold matrices of 8 rows of 16 bytes the way a matrix load hands them out."""
    if (
        machine.shared.matrix_load != "ldmatrix"
        or memory.space != "shared"
        or memory.dtype.bytes > _MATRIX_PART_BYTES
        or len(memory.dims) != 2
        or layout.elements == 1
    ):
        return False
    return _holds_matrices(memory.dtype, layout, *memory.dims)


def _holds_matrices(dtype: DType, layout: Layout, row: str, column: str) -> bool:
    """Whether four lanes have a row of 16 bytes of each matrix, and so on for 8 rows."""
    part, width = _MATRIX_PART_BYTES // dtype.bytes, _MATRIX_ROW_BYTES // dtype.bytes
    rows, columns = _matrix_base(layout, row, column, part)
    # What is left of the base may tell groups of lanes apart, not lanes of a group.
    apart = {"lane": symbol("group", 0, None) * _MATRIX_LANES + symbol("place", 0, _MATRIX_LANES - 1)}
    rows, columns = rows.substitute(apart), columns.substitute(apart)
    return (
        (part == 1 or layout.axes[-1] == RegisterAxis(part, ((column, 1),)))
        and "place" not in rows.symbols | columns.symbols
        and layout.elements // part % 2 == 0
        and all(o[row] % _MATRIX_ROWS == 0 and o[column] % width < part for o in layout.register_offsets())
    )


def _matrix_base(layout: Layout, row: str, column: str, part: int) -> tuple[Expr, Expr]:
    lane = _lane(layout) % _MATRIX_LANES
    return layout.base_of(row) - lane // 4, layout.base_of(column) - lane % 4 * part


def _lane(layout: Layout) -> Expr:
    """The symbol ``lane`` with its range; 0 where all lanes hold the same."""
    nodes = (node for _, expr in layout.base for node in expr.walk())
    return next((node for node in nodes if node.kind == "symbol" and node.args[0] == "lane"), const(0))


def turned_matrices(memory: Memory, layout: Layout, origin: Coordinates, machine: Machine) -> list[tuple[int, Expr]]:
    """The matrices of a tile whose lanes hold columns of rows in memory, which loads and stores turn; else none."""
    if (
        machine.shared.matrix_load != "ldmatrix"
        or memory.space != "shared"
        or memory.dtype.bytes != _MATRIX_TURNED_BYTES
        or len(memory.dims) != 2
        or layout.elements == 1
    ):
        return []
    row, column = memory.dims
    width = _MATRIX_ROW_BYTES // memory.dtype.bytes
    if not _keeps_chunks(memory, column, width) or not _holds_matrices(memory.dtype, layout, column, row):
        return []
    places = list(matrix_places(memory, layout, origin, turned=True))
    return places if all(offset.divisor % width == 0 for _, offset in places) else []


def _keeps_chunks(memory: Memory, column: str, width: int) -> bool:
    """Whether ``width`` neighbours along a dim lie side by side, from each multiple of that on."""
    if memory.arrangement is None:
        return memory.contiguous_dim == column
    last, swizzle = memory.arrangement.digits[-1], memory.arrangement.swizzle
    together = (last.dim, last.step, last.stride) == (column, 1, 1) and last.extent % width == 0
    return together and (swizzle is None or (swizzle.column == column and swizzle.chunk % width == 0))


def matrix_places(
    memory: Memory, layout: Layout, origin: Coordinates, *, turned: bool = False
) -> Iterator[tuple[int, Expr]]:
    """The matrices of a tile in the order of registers, 4 or 2 at a time: how many, and the offset a lane names, of
    a row in memory.  ``turned``: lanes hold columns."""
    row, column = memory.dims
    part = _MATRIX_PART_BYTES // memory.dtype.bytes
    base = _matrix_base(layout, *((column, row) if turned else (row, column)), part)
    rows, columns = base[::-1] if turned else base
    lane = _lane(layout) % _MATRIX_LANES
    starts = [(o[row], o[column]) for o in list(layout.register_offsets())[::part]]
    while starts:
        count = 4 if len(starts) >= 4 and _is_grid(starts[:4]) else 2
        group, starts = starts[:count], starts[count:]
        (row0, column0), (row1, column1) = group[0], group[1]
        across = lane // _MATRIX_ROWS % 2
        at_row = rows + row0 + lane % _MATRIX_ROWS + across * (row1 - row0)
        at_column = columns + column0 + across * (column1 - column0)
        if count == 4:
            down = lane // (2 * _MATRIX_ROWS)
            at_row, at_column = at_row + down * (group[2][0] - row0), at_column + down * (group[2][1] - column0)
        at = {row: origin[row] + at_row, column: origin[column] + at_column}
        yield count, memory.offset(at)


def _is_grid(starts: Sequence[tuple[int, int]]) -> bool:
    (r0, c0), (r1, c1), (r2, c2), (r3, c3) = starts
    return (r3 - r2, c3 - c2) == (r1 - r0, c1 - c0) and (r3 - r1, c3 - c1) == (r2 - r0, c2 - c0)
