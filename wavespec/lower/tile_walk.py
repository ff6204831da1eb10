"""The number of a tile goes in; its place along each axis of a grid comes out, as values of symbols."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from wavespec.ir.expr import Expr, const, maximum, minimum, symbol
from wavespec.ir.kernel import Kernel, Memory, Op, attribute_pairs

MOST_TILES = 2**30  # sums with small numbers stay within 32 bits
_LARGEST_GROUP = 64
_BAND = {
    "band_tiles": symbol("band_tiles", 1, MOST_TILES),
    "band_start": symbol("band_start", 0, MOST_TILES),
    "band_place": symbol("band_place", 0, MOST_TILES),
    "band_height": symbol("band_height", 1, _LARGEST_GROUP),
}
"""Tiles of a whole band; first row of the band of a tile, the tile's number inside of it, and rows of the band."""


@dataclass(frozen=True, slots=True)
class Walk:
    """Which tiles a worker computes: the ``number`` of the present one, and the ``loops`` around what is done for it.

    ``symbols`` are those that the loops give values; those of ``each`` have them in front of the number.
    """

    number: Expr
    loops: Callable[[Sequence[Op]], tuple[Op, ...]]
    symbols: tuple[Expr, ...]
    memories: tuple[Memory, ...] = ()
    each: Mapping[str, Expr] = field(default_factory=dict[str, Expr])


def in_order(number: Expr, grid: Mapping[str, Expr]) -> dict[str, Expr]:
    """The places that ``number`` stands for along the axes of a grid, by their symbols; the first runs fastest.

    Nothing is divided for an axis of one place at most.
    """
    places: dict[str, Expr] = {name: const(0) for name in grid}
    *inner, last = [name for name, extent in grid.items() if not _is_one(extent)] or [*grid]
    for name in inner:
        places[name] = number % grid[name]
        number = number // grid[name]
    return places | {last: number}


def in_bands(number: Expr, grid: Mapping[str, Expr], group: int) -> dict[str, Expr]:
    """The same over bands of ``group`` rows: down the rows of a band, then on to its next column, so that tiles that
    follow each other share what they read.  A band of one row is divided by its columns alone.  Without a group, or
    with one axis, they come in the order of the axes; where there is one row at most, or one column, in that of the
    others."""
    if len(grid) < 2 or not group:
        return in_order(number, grid)
    (row, rows), (column, columns), *others = grid.items()
    if _is_one(rows) or _is_one(columns):
        return in_order(number, grid)
    band, start, inside, height = _BAND.values()
    planes = in_order(number // (rows * columns), dict(others)) if others else {}
    number = number % (rows * columns) if others else number
    if group == 1:
        return planes | {"band_tiles": columns, row: number // band, column: number % band}
    return planes | {
        "band_tiles": columns * group,
        "band_start": number // band * group,
        "band_place": number % band,
        "band_height": maximum(1, minimum(rows - start, group)),
        row: start + inside % height,
        column: inside // height,
    }


def _is_one(extent: Expr) -> bool:
    """Whether an axis has one place, or none."""
    return extent.high is not None and extent.high <= 1


def defined(kernel: Kernel, declared: Iterable[Expr], values: Mapping[str, Expr]) -> tuple[Kernel, tuple[Op, ...]]:
    """The kernel with symbols of the walk, and the operations that give the symbols it knows their values, in order."""
    declared = [*declared, *(_BAND[name] for name in values if name in _BAND)]
    known = {known.args[0] for known in (*kernel.symbols, *declared) if not known.is_const}
    lets = tuple(let(name, value) for name, value in values.items() if name in known)
    return kernel.with_symbols(*declared), lets


def let(name: str, value: Expr) -> Op:
    """The operation that says what a symbol stands for from here on."""
    return Op("let", attributes=attribute_pairs({"symbol": name, "value": value}))


def product(extents: Iterable[Expr]) -> Expr:
    total = const(1)
    for extent in extents:
        total = total * extent
    return total
