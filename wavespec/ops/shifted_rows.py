"""The places of a staged tile in; out comes an arrangement in which rows that are shifted by a step are there once.

The taps of a filter that lie side by side read the same pixels: tap ``s`` of row ``m`` is tap 0 of row ``m + s``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from wavespec.ir.expr import Expr, const
from wavespec.ir.kernel import Memory, Op
from wavespec.ir.layout import Arrangement, Digit, swizzled_slabs
from wavespec.ops.index_map import index_of
from wavespec.targets.machine import Machine

_LINES = 16  # rows of a copy whose loads are in flight together
_PERIOD_ROWS = 8  # after which a swizzle begins anew
_NONE = const(0)


@dataclass(frozen=True, slots=True)
class ShiftedRows:
    """``width`` elements along the depth, then as many of the next row, and so on for ``count`` rows; then the same
    ``pitch`` rows further, and so on for ``lines`` times."""

    width: int
    count: int
    lines: int = 1
    pitch: Expr = _NONE

    @property
    def depth(self) -> int:
        """Elements along the depth, behind which the row is its own again."""
        return self.width * self.count * self.lines

    @property
    def most(self) -> Expr:
        """How far a row is shifted at most."""
        return self.pitch * (self.lines - 1) + (self.count - 1)

    def at(self, depth: Expr) -> Expr:
        """How far a row is shifted at a place along the depth."""
        along = depth // self.width % self.count
        return along if self.lines == 1 else along + depth // (self.width * self.count) % self.lines * self.pitch


def shifted_rows(places: Iterable[Expr], row: str, depth: str, elements: int) -> ShiftedRows | None:
    """How the rows of a tile, whose elements are at ``places``, are shifted along its depth; None where they are not.

    Every place has the row in sums ``row + depth // width % count`` alone, and the depth otherwise only as what such a
    step leaves as it is.  Where all quotients of these sums by a ``pitch`` are in sums with a count of lines, which the
    depth says as well, remainders are by ``pitch``, and sums stand nowhere else, a line is as many rows further.

    Args:
        elements: of the tile along the depth.
    """
    found = _Shifts(index_of(row))
    for place in places:
        found.add(place)
    if len(found.rows) != 1 or any(node is found.row for node in found.left):
        return None
    along, (shift,) = index_of(depth), found.rows
    if shift.kind != "mod" or shift.args[0].kind != "floordiv" or shift.args[0].args[0] is not along:
        return None
    width, count = shift.args[0].args[1], shift.args[1]
    if not width.is_const or not count.is_const:
        return None
    rows = ShiftedRows(width.value, count.value)
    if any(line != const(0) for line, _ in found.lines):
        line, pitch = next(iter(found.lines))
        rows = replace(rows, lines=_count_of(line, along // rows.depth, elements // rows.depth), pitch=pitch)
        if not rows.lines or len(found.lines) > 1 or found.pitches != {pitch}:
            return None
        if found.alone:
            rows = ShiftedRows(rows.width, rows.count)
    return rows if all(_is_kept(node, along, rows) for node in found.left) else None


def shifts_of_operand(
    read: Op, dims: Sequence[str], source: Memory, machine: Machine, *, in_rows: bool
) -> ShiftedRows | None:
    """How the rows of an operand with a mapping are shifted; lines are no shifts of their own where tiles cannot begin
    anywhere in a memory, copies do not take all that lies side by side at once, or each line by itself may take fewer
    rows.

    Args:
        source: the tensor as the operand sees it.
        in_rows: whether the operand is staged in rows.
    """
    if not read.get("at"):
        return None
    row, depth = dims
    height, elements = (read.result.tile.extent(dim) for dim in dims)
    rows = shifted_rows([place for _, place in read["at"]], row, depth, elements)
    if rows is None or rows.lines == 1:
        return rows
    vector = machine.vector_bytes // source.dtype.bytes
    whole = source.shape[-1].divisor % rows.width == 0 and rows.width in (vector, 2 * vector, 4 * vector)
    reaches = machine.shared.matrix_load == "tile" and elements % rows.depth == 0
    are_few = rows.most.high is not None and height + rows.most.high <= height * rows.lines
    return rows if in_rows and whole and reaches and are_few else ShiftedRows(rows.width, rows.count)


def _count_of(digit: Expr, quotient: Expr, most: int) -> int:
    """How many values a digit takes that ``quotient``, of ``most`` values, begins with; 0 where it is none."""
    if digit.kind == "mod" and digit.args[0] is quotient and digit.args[1].is_const:
        return digit.args[1].value
    counts = [-factor for factor, term in digit.terms() if factor < 0 and digit == quotient + term * factor]
    if len(counts) == 1 and digit == quotient - quotient // counts[0] * counts[0]:
        return counts[0]
    return most if digit is quotient else 0


class _Shifts:
    """What ``row`` is found with: shifts of sums with it (``rows``), what is added to quotients of these, and what they
    are divided by (``lines``), what their remainders are of (``pitches``), whether some of them is neither divided nor
    has a remainder taken (``alone``), and the nodes without sums (``left``)."""

    def __init__(self, row: Expr) -> None:
        self.row = row
        self.rows: set[Expr] = set()
        self.lines: set[tuple[Expr, Expr]] = set()
        self.pitches: set[Expr] = set()
        self.alone = False
        self.left: list[Expr] = []

    def add(self, expr: Expr) -> None:
        """Of quotients and remainders without the row the whole is left alone."""
        terms = expr.terms()
        if (1, self.row) in terms:
            self._found(expr)
            self.alone = True
            return
        for factor, term in terms:
            if factor == 1 and term.kind == "floordiv" and (1, self.row) in term.args[0].terms():
                self._found(term.args[0])
                line = expr - term
                self.lines.add((line - line.constant_part(), term.args[1]))
                self.pitches.add(term.args[1])
                return
        for _, term in terms:
            if term is not expr:
                self.add(term)
                continue
            if self.row.symbols.isdisjoint(expr.symbols):
                self.left.append(expr)
                continue
            if not term.args or term.kind == "symbol":
                self.left.append(expr)
            if term.kind == "mod" and (1, self.row) in term.args[0].terms():
                self._found(term.args[0])
                self.pitches.add(term.args[1])
                self.add(term.args[1])
                continue
            for argument in term.args if term.kind != "symbol" else ():
                self.add(argument)

    def _found(self, expr: Expr) -> None:
        shift = expr - self.row
        self.rows.add(shift - shift.constant_part())


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
    if depth % rows.depth or rows.most.high is None:
        return None
    high = height + rows.most.high
    blocks = -(-high // _LINES)
    high = -(-high // blocks) * blocks  # as many rows in each block of a copy
    digits = (
        Digit(down, high, 1, rows.width),
        Digit(along, depth // rows.depth, rows.depth, high * rows.width),
        Digit(along, rows.count, rows.width, rows.width),
        Digit(along, rows.width, 1, 1),
    )
    if rows.lines > 1:  # whoever reads a row is told where it is
        arrangement = Arrangement((*digits[:2], digits[3]))
    else:
        arrangement = Arrangement(tuple(digit for digit in digits if digit.extent > 1))
    return replace(tile, shape=(const(high), tile.shape[1]), arrangement=arrangement)


def with_shifted_slabs(tile: Memory, rows: ShiftedRows) -> Memory | None:
    """The same of a tile, without lines, that a matrix unit reads, in slabs as wide as what a row is shifted after.

    The unit swizzles by addresses, so that a row is where it is from whichever row its reading starts.
    """
    (down, along), (height, depth) = tile.dims, (extent.value for extent in tile.shape)
    slabs = swizzled_slabs((down, along), (height, rows.width), 8 * tile.dtype.bytes)
    if (
        rows.lines > 1
        or depth % rows.depth
        or len(slabs.digits) != 2
        or slabs.swizzle is None
        or slabs.swizzle.period != 1
    ):
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


def period_of(tile: Memory) -> int:
    """Elements along the depth of a staged tile of which a copy fills the first ones, as the others are those of rows
    further down; 0 where it fills them all."""
    assert tile.arrangement is not None
    if shift := shift_of(tile):
        return shift.depth
    along = [digit for digit in tile.arrangement.digits if digit.dim == tile.dims[1]]
    apart = [one.step for one, below in pairwise(along) if one.step > below.step * below.extent]
    return apart[0] if apart else 0
