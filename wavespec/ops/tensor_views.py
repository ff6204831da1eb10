"""An access with an index mapping in; how a copy engine has to see the tensor to find the tile in it, as boxes, out."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

from wavespec.ir.expr import Expr, const, minimum
from wavespec.ir.kernel import Kernel, Memory, Op
from wavespec.ir.quotients import settled
from wavespec.ir.tile_ops import COPY, MMA
from wavespec.ir.windows import Window, limits_of_windows
from wavespec.ops.index_map import dims_of, index_of
from wavespec.ops.shifted_rows import shift_of
from wavespec.targets.machine import Machine


@dataclass(frozen=True, slots=True)
class Matrices:
    """A tensor as matrices: the last two dims of ``memory`` are those of a tile, ``places`` those along the dims in
    front of them, which say which matrix it is."""

    memory: Memory
    places: tuple[Expr, ...]

    @property
    def tile(self) -> Memory:
        """The tensor as a tile sees it."""
        return self.memory

    def corner(self, start: Mapping[str, Expr]) -> tuple[Expr, ...]:
        """Where a tile starts that does at ``start`` of the dims of the graph."""
        known = {index_of(dim).args[0]: place for dim, place in start.items()}
        which = (place.substitute(known) for place in self.places)
        return (*which, *(start[dim] for dim in self.memory.dims[len(self.places) :]))


def as_matrices(op: Op, kernel: Kernel, tile: Sequence[str]) -> Matrices | None:
    """The tensor with the two dims of the ``tile``, each of which counts over consecutive dims of the tensor, the last
    one fastest, as the pixels of all images; those in front have one place in a tile.  None where the mapping is any
    other."""
    memory = _whole_tensor(op, kernel, tile)
    if memory is None:
        return None
    known, dims = dict(op["at"]), tuple(dim for dim in dims_of(op) if dim in tile)
    indices = {index_of(dim).args[0] for dim in dims}
    places = [known[dim] for dim in memory.dims]
    first = next(number for number, place in enumerate(places) if not indices.isdisjoint(place.symbols))
    if not set(memory.dims[:first]).isdisjoint(dims):
        return None
    for cut in range(first + 1, len(places)):
        parts = slice(first, cut), slice(cut, None)
        counted = zip(dims, parts, strict=True)
        if all(places[part][0] in _counts(index_of(dim), places[part], memory.shape[part]) for dim, part in counted):
            sizes = (_product(memory.shape[part]) for part in parts)
            extents = [minimum(kernel.size(dim), size) for dim, size in zip(dims, sizes, strict=True)]
            seen = replace(memory, dims=(*memory.dims[:first], *dims), shape=(*memory.shape[:first], *extents))
            return Matrices(seen, tuple(places[:first]))
    return None


@dataclass(frozen=True, slots=True)
class Windows:
    """Windows that move over the dims between the first and the last of a tensor, one for each row of a tile: images
    one after another, the last of these dims fastest.  The columns of the tile are neighbours along the last dim.

    ``places``: of the start of a row's window, for every dim; ``offsets``: of the element in each window.
    """

    places: tuple[Expr, ...]
    windows: tuple[Window, ...]
    offsets: tuple[Expr, ...]

    def attributes(self, start: Mapping[str, Expr]) -> dict[str, Any]:
        """Those of a copy whose first element is at ``start`` of the tile's dims."""
        known = {index_of(dim).args[0]: place for dim, place in start.items()}
        return {
            "corner": tuple(place.substitute(known) for place in self.places),
            "windows": self.windows,
            "offsets": tuple(offset.substitute(known) for offset in self.offsets),
        }


def as_windows(op: Op, kernel: Kernel, shared: Memory, machine: Machine) -> Windows | None:
    """The windows that a copy into ``shared`` takes its elements from, of steps and places that the machine counts.

    Of rows that the tile has once for all of their shifts, the copy is of the first one.
    """
    memory = _whole_tensor(op, kernel, shared.dims)
    if memory is None or not _rows_may_be_anything(kernel, shared):
        return None
    row = next(dim for dim in shared.dims if dim != shared.contiguous_dim)
    places, shift = dict(op["at"]), shift_of(shared)
    if shift is not None:
        (down,), first = index_of(row).symbols, index_of(row) - shift.at(index_of(shared.dims[1]))
        places = {dim: place.substitute({down: first}) for dim, place in places.items()}
    windows = _windows(memory, places, row, kernel, machine)
    return windows if windows and _in_one_place(op, windows.offsets, windows.places[-1], shared) else None


@dataclass(frozen=True, slots=True)
class Lines:
    """Lines of a tensor, each all of its dim before the last one, that rows of a tile go over one after another.

    ``memory``: the tensor as lines, places in a line, and columns; ``tile``: the same for a tile, each place of a line
    a row; ``length``: rows of the tile for each line, those beyond its end are nowhere.
    """

    memory: Memory
    tile: Memory
    length: Expr


def as_lines(op: Op, kernel: Kernel, tile: Sequence[str]) -> Lines | None:
    """The lines that the rows of a tile are written to, where its columns are those of the tensor."""
    memory = _whole_tensor(op, kernel, tile)
    if memory is None or len(memory.dims) < 3:
        return None
    (row, column), (*lines, along, across) = tile, (place for _, place in op["at"])
    if across is not index_of(column) or along.kind != "mod" or along.args[0] is not index_of(row):
        return None
    length, (*sizes, size, width) = along.args[1], memory.shape
    if lines[0] not in _counts(index_of(row), [*lines, along], (*sizes, length)):
        return None
    seen = replace(memory, dims=("", row, column), shape=(_product(sizes), size, width))
    return Lines(seen, replace(memory, dims=(row, column), shape=(_product(sizes) * size, width)), length)


def _windows(memory: Memory, places: Mapping[str, Expr], row: str, kernel: Kernel, machine: Machine) -> Windows | None:
    """The windows that move with a row, where it counts over those of one image after another."""
    reach = dict(machine.globals.bulk_window_reach).get(len(memory.dims), 0)
    if not reach:
        return None
    images, *between, last = (places[dim] for dim in memory.dims)
    found = [_window(place, index_of(row)) for place in between]
    split = [one for one in found if one]
    counts = [digit for digit, _, _, _ in split]
    sizes = (const(1), *(digit.args[1] for digit in counts))
    if len(split) != len(found) or images not in _counts(index_of(row), [images, *counts], sizes):
        return None
    windows: list[Window] = []
    for (digit, step, first, offset), size in zip(split, memory.shape[1:-1], strict=True):
        farthest = _farthest(offset, kernel)
        if farthest is None or not 1 <= step <= machine.globals.bulk_box_steps or not -reach <= first < reach:
            return None
        windows.append((first, step, digit.args[1], farthest))
        limits = limits_of_windows(windows[-1], size, reach)
        if any(number.low is not None and number.low > most for _, number, most in limits):
            return None  # whatever sizes are
    if index_of(row).args[0] in last.symbols:
        return None
    return Windows(
        (images, *(digit * step + first for digit, step, first, _ in split), last),
        tuple(windows),
        tuple(offset for *_, offset in split),
    )


@dataclass(frozen=True, slots=True)
class Slabs:
    """Rows along the first dim of a tensor and columns along its last one, where all columns of a slab are at one place
    along the dims between; ``places``: of an element, for every dim."""

    places: tuple[Expr, ...]

    def corner(self, start: Mapping[str, Expr]) -> tuple[Expr, ...]:
        """Where the slab starts that does at ``start`` of the tile's dims."""
        known = {index_of(dim).args[0]: place for dim, place in start.items()}
        return tuple(place.substitute(known) for place in self.places)

    def box(self, box: Sequence[int]) -> tuple[int, ...]:
        """So many rows and columns, along the dims of the tensor."""
        return (box[0], *[1] * (len(self.places) - 2), box[1])


def as_slabs(op: Op, kernel: Kernel, shared: Memory) -> Slabs | None:
    """The slabs of a tensor that a copy into ``shared`` takes its elements from."""
    memory = _whole_tensor(op, kernel, shared.dims)
    if memory is None or len(memory.dims) < 3 or not _rows_may_be_anything(kernel, shared):
        return None
    row, _ = shared.dims
    (first, *between, last), index = (place for _, place in op["at"]), index_of(row)
    if tuple(dim for dim, _ in op["at"]) != memory.dims or first is not index:
        return None
    if any(index.args[0] in place.symbols for place in (*between, last)):
        return None
    return Slabs((first, *between, last)) if _in_one_place(op, between, last, shared) else None


def _farthest(offset: Expr, kernel: Kernel) -> Expr | None:
    """The most that an offset may be, in sizes of dims; None where it does not follow from them."""
    sizes = kernel.all_sizes
    ends = {index_of(dim).args[0]: size - 1 for dim, size in sizes.items()}
    known = frozenset[str]().union(*(size.symbols for size in sizes.values()))
    if offset.symbols <= known:
        return offset
    if offset.kind == "symbol":
        return ends.get(offset.args[0])
    if offset.kind == "sum":
        most = const(offset.constant_part())
        for by, term in offset.terms():
            part = _farthest(term, kernel) if by > 0 else None
            if part is None:
                return None
            most += part * by
        return most
    if offset.kind not in ("mod", "floordiv") or not offset.args[1].symbols <= known:
        return None
    number, divisor = offset.args
    most = _farthest(number, kernel)
    if most is None:
        return None
    return minimum(most, divisor - 1) if offset.kind == "mod" else most // divisor


def _whole_tensor(op: Op, kernel: Kernel, tile: Sequence[str]) -> Memory | None:
    """The tensor of an access whose places follow from the two dims of a tile alone, beside those of which it has one
    element, where it has elements in any call that gets there."""
    memory = kernel.memory(op["source" if op.is_(COPY) else "memory"])
    if not op.get("at") or op.get("combine") or op.get("through"):
        return None
    symbols = {symbol for _, place in op["at"] for symbol in place.symbols}
    if sum(index_of(dim).args[0] in symbols for dim in dims_of(op) if dim in tile) != 2:
        return None
    if memory.is_strided:  # no dims of it are one
        return None
    if any(not (size.low or dim in kernel.present) for dim, size in zip(memory.dims, memory.shape, strict=True)):
        return None
    return memory


def _counts(index: Expr, places: Sequence[Expr], sizes: Sequence[Expr]) -> tuple[Expr, ...]:
    """What the first place may be where an index counts over dims of these sizes, the last one fastest; nothing where
    another place is not what it should be then."""
    known = (index,)
    for number in range(len(places) - 1, 0, -1):
        if not any(places[number] is one % sizes[number] for one in known):
            return ()
        known = (known[0] // sizes[number], index // _product(sizes[number:]))
    return known


def _window(place: Expr, index: Expr) -> tuple[Expr, int, int, Expr] | None:
    """The place as digit * step + first + offset: which window a row has, and which element of it."""
    moving = [(step, term) for step, term in place.terms() if index.args[0] in term.symbols]
    if len(moving) != 1 or moving[0][1].kind != "mod":
        return None
    ((step, digit),) = moving
    first = place.constant_part()
    offset = _remainders(place - digit * step - first)
    return (digit, step, first, offset) if offset.low is not None and offset.low >= 0 else None


def _remainders(expr: Expr) -> Expr:
    """The same with ``a % n`` for ``a - a // n * n``."""
    for by, part in expr.terms():
        for once, whole in expr.terms() if by < -1 else ():
            if once == 1 and whole // -by is part:
                return _remainders(expr - whole - part * by + whole % -by)
    return expr


def _rows_may_be_anything(kernel: Kernel, shared: Memory) -> bool:
    """Whether a tile has all of its columns, and no product sums over its rows, which end with the tensor."""
    row, column = shared.dims
    summed = {op["k"] for op in kernel.walk() if op.is_(MMA)}
    return row not in summed and kernel.size(column).divisor % shared.shape[1].value == 0


def _in_one_place(op: Op, offsets: Sequence[Expr], last: Expr, shared: Memory) -> bool:
    """Whether neighbours along a row of the swizzle are neighbours along the tensor's last dim alone."""
    column, origin, width = shared.dims[1], dict(op["origin"]), slab_columns(shared)

    def at(expr: Expr, number: int) -> Expr:
        return settled(expr.substitute({index_of(column).args[0]: origin[column] + number}))

    def moves(first: int, number: int) -> Iterator[bool]:
        yield at(last, first + number).beyond(at(last, first)) == number
        yield from (at(offset, first + number) is at(offset, first) for offset in offsets)

    starts = range(0, shared.shape[1].value, width)
    return all(all(moves(first, number)) for first in starts for number in range(width))


def slab_columns(shared: Memory) -> int:
    """Columns of a staged tile that lie in one row of its swizzle."""
    assert shared.arrangement is not None
    return next(digit.extent for digit in shared.arrangement.digits if digit.dim == shared.dims[1] and digit.step == 1)


def _product(sizes: Sequence[Expr]) -> Expr:
    return reduce(operator.mul, sizes, const(1))
