"""Accesses of rows that start anywhere, their tiles shifted so that wide accesses are aligned, as those of one lane."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from wavespec.ir.expr import Expr, const
from wavespec.ir.kernel import Memory, Region, Value
from wavespec.ir.layout import Layout
from wavespec.ir.thread import Mask, ThreadBuilder
from wavespec.ops.accesses import Coordinates, Piece, coordinates_in, granule_elements, is_aligned, pieces
from wavespec.targets.machine import Machine


def read_around(
    build: ThreadBuilder,
    memory: Memory,
    layout: Layout,
    origin: Coordinates,
    masked: Sequence[str],
    hint: str,
    machine: Machine,
) -> tuple[Value, ...]:
    """Load a tile, one value per access: all of every one that has an element of the row.

    Of a memory whose rows start beside those that the tile was shifted for, the accesses that have an element each:
    two wide ones, or three of half the width where elements are smaller than words, of which fewer are chosen then.
    """
    granule, widest = granule_elements(memory, layout, origin), _widest(memory, machine)
    if granule % widest or memory.dtype.is_packed:
        return tuple(_load_around(build, memory, p, masked, hint) for p in _pieces(memory, layout, origin, machine))
    loaded, grain = list[Value](), widest // 2 if memory.dtype.bits < 32 else widest
    for number, inside in enumerate(layout.coordinates(widest)):
        at = coordinates_in(memory, origin, inside)
        piece = Piece(number * widest, widest, memory.offset(at), at)
        if is_aligned(memory, piece.offset.divisor, widest, machine):
            loaded.append(_load_around(build, memory, piece, masked, hint))
            continue
        ends = {*masked, memory.contiguous_dim}  # the further access may be beyond a row whose tiles are not
        beside = piece.offset % grain
        parts = (_moved(memory, piece, at - beside, grain) for at in range(0, widest + grain, grain))
        all_ = build.pack([_load_around(build, memory, part, ends, hint) for part in parts], hint)
        loaded.append(build.window(all_, beside, widest, hint))
    return tuple(loaded)


def _load_around(build: ThreadBuilder, memory: Memory, piece: Piece, masked: Collection[str], hint: str) -> Value:
    last = piece.coordinates[memory.contiguous_dim] + (piece.width - 1)
    mask = (*_below(memory, masked, piece.coordinates), *(_from_0(last) if memory.contiguous_dim in masked else ()))
    return build.load(memory.name, memory.dtype, piece.width, piece.offset, mask=mask, around=True, hint=hint)


def _moved(memory: Memory, piece: Piece, by: Expr, width: int) -> Piece:
    """An access of so many elements, further on."""
    at = {dim: place + by if dim == memory.contiguous_dim else place for dim, place in piece.coordinates.items()}
    return Piece(piece.register, width, piece.offset + by, at)


def write_around(
    build: ThreadBuilder,
    memory: Memory,
    layout: Layout,
    origin: Coordinates,
    masked: Sequence[str],
    values: Sequence[Value],
    machine: Machine,
) -> None:
    """Store a tile from its fragments: whole accesses inside of the row, elements at its ends."""
    column = memory.contiguous_dim
    size = memory.shape[memory.dims.index(column)]
    whole = build.pack([build.cast(value, memory.dtype) for value in values], memory.name)
    for piece in _pieces(memory, layout, origin, machine):
        others = _below(memory, [dim for dim in masked if dim != column], piece.coordinates)
        first, width = piece.coordinates[column], piece.width
        stored = build.slice(whole, piece.register, width)
        inside = (*others, *_from_0(first), (first + (width - 1), size))
        build.store(stored, memory.name, piece.offset, mask=inside)
        if width == 1:
            continue
        _store_ends(build, memory, piece, stored, (*others, (size, first + width)), range(width - 1), size)
        if _from_0(first):
            is_head = (*others, (first, const(0)), (first + (width - 1), size))
            _store_ends(build, memory, piece, stored, is_head, range(1, width), size)


def _store_ends(
    build: ThreadBuilder, memory: Memory, piece: Piece, stored: Value, mask: Mask, numbers: range, size: Expr
) -> None:
    """Where an access sticks out of the row, those of its elements that are inside."""
    inner, first = build.nested(), piece.coordinates[memory.contiguous_dim]
    for number in numbers:
        at = first + number
        element = inner.slice(stored, number, 1)
        inner.store(element, memory.name, piece.offset + number, mask=(*_from_0(at), (at, size)))
    build.add("if", (), (), Region((), tuple(inner.ops), ()), mask=mask)


def _pieces(memory: Memory, layout: Layout, origin: Coordinates, machine: Machine) -> Iterator[Piece]:
    granule = granule_elements(memory, layout, origin)
    places = (coordinates_in(memory, origin, inside) for inside in layout.coordinates(granule))
    return pieces(memory, places, _widest(memory, machine), machine, granule=granule)


def _widest(memory: Memory, machine: Machine) -> int:
    """Elements of the widest access."""
    return machine.globals.access_bytes // memory.dtype.bytes


def _below(memory: Memory, masked: Collection[str], at: Coordinates) -> Mask:
    return tuple((at[dim], size) for dim, size in zip(memory.dims, memory.shape, strict=True) if dim in masked)


def _from_0(place: Expr) -> Mask:
    """What holds where a place is not in front of its row, if it may be."""
    return ((-place, const(1)),) if place.low is None or place.low < 0 else ()
