"""A tile that a mapping only moves leaves through shared memory where all of it is written, and by lanes elsewhere."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from wavespec.ir.expr import Expr, const, maximum, minimum, symbol
from wavespec.ir.kernel import Kernel, Memory, Op, Value
from wavespec.ir.layout import Layout
from wavespec.ir.names import operand_name
from wavespec.ops.contexts import ThreadContext
from wavespec.ops.index_map import index_of
from wavespec.ops.mapped_accesses import bind, indices_of, write_mapped
from wavespec.ops.moved_places import moved_place, rows_moved_together
from wavespec.ops.staged_writes import box_store, without_lane, write_staged

_PIECE = symbol("piece", 0, 2**30)
_FEWEST_ROWS = 8  # of a piece: swizzles begin anew with so many


@dataclass(frozen=True, slots=True)
class Moved:
    """Where a tile is in a tensor, or each piece of it: ``rows`` of them, which its mapping moves together.

    ``tensor``: with the names that its dims have in the tile; ``dims``: those of the tile; ``places``: of an element,
    along each of them; ``outside``: what is above 0 from some row on, whose elements the mapping moves out of the
    tensor.  Of pieces both are in terms of the number of a piece, and of a row in it.
    """

    tensor: Memory
    dims: tuple[str, str]
    places: Mapping[str, Expr]
    outside: tuple[Expr, ...]
    rows: int = 0

    def pieces(self, first: Expr, height: int) -> list[tuple[int, dict[str, Expr]]]:
        """Where each piece of so many rows begins among them, and what the symbols of its places stand for."""
        index = index_of(self.dims[0]).args[0]
        if not self.rows:
            return [(0, {index: first})]
        starts = range(0, height, self.rows)
        return [(at, {_PIECE.args[0]: (first + at) // self.rows, index: (first + at) % self.rows}) for at in starts]

    @property
    def tile(self) -> Memory:
        """The tensor with the dims of the tile alone."""
        sizes = dict(zip(self.tensor.dims, self.tensor.shape, strict=True))
        return replace(self.tensor, dims=self.dims, shape=tuple(sizes[dim] for dim in self.dims))


def moved(op: Op, kernel: Kernel) -> Moved | None:
    """How the mapping of a write moves its tile, where it does nothing else but to leave out the last rows."""
    return _moved(op, kernel, op["at"])


def moved_in_pieces(op: Op, kernel: Kernel) -> Moved | None:
    """The same of pieces of a tile, of as many rows as quotients in its mapping stay the same for."""
    dim = op.operands[0].tile.dims[0]
    row, height = index_of(dim), op.operands[0].tile.extent(dim) // kernel.waves_along(dim)
    starts = math.gcd(height, dict(op["origin"])[dim].divisor)
    rows = rows_moved_together([place for _, place in op["at"]], row, starts)
    if rows < _FEWEST_ROWS:
        return None
    inside = {row.args[0]: _PIECE * rows + symbol(row.args[0], 0, rows - 1)}
    at = [(dim, place.substitute(inside).substitute({row.args[0]: row})) for dim, place in op["at"]]
    found = _moved(op, kernel, at)
    return found and replace(found, rows=rows)


def _moved(op: Op, kernel: Kernel, at: Sequence[tuple[str, Expr]]) -> Moved | None:
    tile, tensor = op.operands[0].tile, kernel.memory(op["memory"])
    if len(tile.dims) != 2 or any(value.tile.dims for value in op.operands[1:]):
        return None
    places, outside = dict[str, Expr](), list[Expr]()
    for dim, place in at:
        found = moved_place(place, tile.dims)
        if found is None or (found.dim or dim) in places:
            return None
        places[found.dim or dim] = found.place
        outside += found.outside
    rows, column = tile.dims
    if rows not in places or tuple(places)[-1] != column:
        return None
    return Moved(replace(tensor, dims=tuple(places)), (rows, column), places, tuple(outside))


def write_moved(op: Op, staged: list[Memory], layout: Layout, context: ThreadContext) -> None:
    """Store a tile by boxes where each of its rows is one of the tensor, and element by element where not."""
    known = moved(op, context.kernel) or moved_in_pieces(op, context.kernel)
    assert known is not None
    build = context.build
    values = {operand_name(number): _bound(value, context) for number, value in enumerate(op.operands[1:])}
    tile, origin = op.operands[0].tile, context.origin(op)
    row, height = tile.dims[0], tile.extent(tile.dims[0]) // context.kernel.waves_along(tile.dims[0])
    index, each = index_of(row).args[0], known.rows or height
    first = {dim: origin[dim] + without_lane(layout.base_of(dim)) for dim in tile.dims}
    last = {dim: first[dim] + tile.extent(dim) // context.kernel.waves_along(dim) - 1 for dim in tile.dims}
    own = {index_of(dim).args[0]: start for dim, start in origin.items()}
    ends = {**own, **{index_of(dim).args[0]: place for dim, place in last.items()}, **values}
    lasts = [{**ends, **here, index: here[index] + each - 1} for _, here in known.pieces(first[row], height)]
    beyond = [guard.substitute(here) for here in lasts for guard in known.outside]
    beyond += [last[dim] + 1 - context.kernel.size(dim) for dim in op["masked"] if dim == row]
    is_whole = const(1)
    for one in dict.fromkeys(beyond):
        is_whole = minimum(is_whole, maximum(0, 1 - one))

    def store(inside: Mapping[str, Expr], extents: Mapping[str, int], given: Mapping[str, Any]) -> tuple[Op, ...]:
        start = {index_of(dim).args[0]: place for dim, place in indices_of(origin, inside).items()}
        box = {**extents, row: min(each, extents[row])}
        extent = tuple(box.get(dim, 1) for dim in known.tensor.dims)

        def piece(at: int, here: Mapping[str, Expr]) -> Op:
            corner = tuple(place.substitute({**start, **here, **values}) for place in known.places.values())
            return box_store({**given, "offset": given["offset"] + at * extents[tile.dims[1]]}, corner, extent)

        return tuple(piece(at, here) for at, here in known.pieces(start[index], extents[row]))

    def whole() -> None:
        fragments = context.fragments[op.operands[0].name]
        write_staged(context, known.tensor, staged, layout, store, fragments)

    for name, taken, write in (
        ("whole", is_whole, whole),
        ("partial", 1 - is_whole, lambda: write_mapped(op, context)),
    ):
        branch, context.build = symbol(build.fresh(name), 0, 1), build.nested()
        context.symbols.append(branch)
        write()
        inner, context.build = context.build, build
        build.loop(branch.args[0], 0, taken, 1, (), (), tuple(inner.ops), (), once=True)


def _bound(value: Value, context: ThreadContext) -> Expr:
    """A symbol for a value that all lanes share."""
    (register,) = context.fragments[value.name]
    return bind(context.build, context, register)
