"""The places of a staged tile in; out comes an arrangement in which rows that are shifted by a step are there once.

The taps of a filter that lie side by side read the same pixels: tap ``s`` of row ``m`` is tap 0 of row ``m + s``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from wavespec.ir.expr import Expr, const
from wavespec.ir.kernel import Memory
from wavespec.ir.layout import Arrangement, Digit, swizzled_slabs
from wavespec.ops.index_map import index_of

_LINES = 16  # rows of a copy whose loads are in flight together
_PERIOD_ROWS = 8  # after which a swizzle begins anew


@dataclass(frozen=True, slots=True)
class ShiftedRows:
    """``width`` elements along the depth, then as many of the next row, and so on for ``count`` rows."""

    width: int
    count: int

    @property
    def depth(self) -> int:
        """Elements along the depth, behind which the row is its own again."""
        return self.width * self.count

    def at(self, depth: Expr) -> Expr:
        """How far a row is shifted at a place along the depth."""
        return depth // self.width % self.count


def shifted_rows(places: Iterable[Expr], row: str, depth: str) -> ShiftedRows | None:
    """How the rows of a tile, whose elements are at ``places``, are shifted along its depth; None where they are not.

    Every place has the row in sums ``row + depth // width % count`` alone, and the depth otherwise only as what such a
    step leaves as it is.
    """
    down, along = index_of(row), index_of(depth)
    found: set[Expr] = set()
    left: list[Expr] = []
    for place in places:
        left += _outside_sums(place, down, found)
    if len(found) != 1 or any(node is down for node in left):
        return None
    shift = found.pop()
    if shift.kind != "mod" or shift.args[0].kind != "floordiv" or shift.args[0].args[0] is not along:
        return None
    width, count = shift.args[0].args[1], shift.args[1]
    if not width.is_const or not count.is_const:
        return None
    rows = ShiftedRows(width.value, count.value)
    return rows if all(_is_kept(node, along, rows) for node in left) else None


def _outside_sums(expr: Expr, down: Expr, found: set[Expr]) -> Iterator[Expr]:
    """The nodes of an expression without sums ``down + shift``, whose shifts are collected; of quotients and
    remainders the whole alone."""
    terms = expr.terms()
    if (1, down) in terms:
        shift = expr - down
        found.add(shift - shift.constant_part())
        return
    for _, term in terms:
        if term is not expr:
            yield from _outside_sums(term, down, found)
            continue
        if down.symbols.isdisjoint(expr.symbols):
            yield expr
            continue
        if not term.args or term.kind == "symbol":
            yield expr
        for argument in term.args if term.kind != "symbol" else ():
            yield from _outside_sums(argument, down, found)


def _is_kept(node: Expr, along: Expr, rows: ShiftedRows) -> bool:
    """Whether a step to the next row leaves a quotient or remainder of the depth as it is."""
    if along.symbols.isdisjoint(node.symbols):
        return True
    if node.kind == "product":
        return all(_is_kept(factor, along, rows) for factor in node.args)
    if node.kind not in ("mod", "floordiv") or not node.args[1].is_const:
        return False
    inner, by = node.args[0], node.args[1].value
    if inner is not along:
        return _is_kept(inner, along, rows)
    return rows.width % by == 0 if node.kind == "mod" else by % rows.depth == 0


def with_shifted_rows(tile: Memory, rows: ShiftedRows) -> Memory | None:
    """The tile with every row once, and those behind the last one that it is shifted to; None where the depth is no
    multiple of what a row is shifted in."""
    (down, along), (height, depth) = tile.dims, (extent.value for extent in tile.shape)
    if depth % rows.depth:
        return None
    high = height + rows.count - 1
    blocks = -(-high // _LINES)
    high = -(-high // blocks) * blocks  # as many rows in each block of a copy
    digits = (
        Digit(down, high, 1, rows.width),
        Digit(along, depth // rows.depth, rows.depth, high * rows.width),
        Digit(along, rows.count, rows.width, rows.width),
        Digit(along, rows.width, 1, 1),
    )
    arrangement = Arrangement(tuple(digit for digit in digits if digit.extent > 1))
    return replace(tile, shape=(const(high), tile.shape[1]), arrangement=arrangement)


def with_shifted_slabs(tile: Memory, rows: ShiftedRows) -> Memory | None:
    """The same of a tile that a matrix unit reads, in slabs as wide as what a row is shifted after.

    The unit swizzles by addresses, so that a row is where it is from whichever row its reading starts.
    """
    (down, along), (height, depth) = tile.dims, (extent.value for extent in tile.shape)
    slabs = swizzled_slabs((down, along), (height, rows.width), 8 * tile.dtype.bytes)
    if depth % rows.depth or len(slabs.digits) != 2 or slabs.swizzle is None or slabs.swizzle.period != 1:
        return None
    high = -(-(height + rows.count - 1) // _PERIOD_ROWS) * _PERIOD_ROWS
    digits = (
        Digit(down, high - rows.count + 1, 1, rows.width),  # so that a buffer ends with the last row of all
        Digit(along, depth // rows.depth, rows.depth, high * rows.width),
        Digit(along, rows.count, rows.width, rows.width),
        Digit(along, rows.width, 1, 1),
    )
    arrangement = Arrangement(tuple(digit for digit in digits if digit.extent > 1), slabs.swizzle)
    return replace(tile, shape=(const(high), tile.shape[1]), arrangement=arrangement)


def shift_of(tile: Memory) -> ShiftedRows | None:
    """How the rows of a staged tile are shifted in memory: a step along the depth is one to the next row."""
    assert tile.arrangement is not None
    down, *others = tile.arrangement.digits
    alike = [digit for digit in others if digit.dim != down.dim and digit.stride == down.stride]
    return ShiftedRows(alike[0].step, alike[0].extent) if alike and down.step == 1 else None
