"""The plain spec of a case goes in; one whose tiles have, as their rows, the elements of two dims comes out.

`pack: {M: [H, G]}`: H // G neighbours along H share what is read along G, as the heads of a group share its keys.  Rows
of tiles are then the elements of M for all of these neighbours, and the grid counts the elements of G in place of H.
Where there is no M, the rows are these neighbours themselves: `pack: {H: [H, G]}` (`rows_of_groups.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from wavespec.diagnostics import WavespecError, Where, quote
from wavespec.schema.checking.check_graph import plain_graph
from wavespec.schema.language.constraints import Assume, Tiling, Wave, Workgroup
from wavespec.schema.language.expression_parser import parse_expression
from wavespec.schema.language.expressions import Expression, Num
from wavespec.schema.language.index_parser import parse_index
from wavespec.schema.language.models import Dim, KernelSpec, Schedule
from wavespec.schema.made_kernels import free_name
from wavespec.schema.ops import (
    Bitcast,
    Branch,
    Cast,
    Formula,
    Index,
    Iterate,
    Mma,
    Read,
    Reduce,
    Register,
    Size,
    Write,
    every,
    walk,
)
from wavespec.schema.ops.elementwise import ELEMENTWISE
from wavespec.schema.packing import Packing
from wavespec.schema.rows_of_groups import OwnRows
from wavespec.schema.rows_of_neighbours import Neighbours, obstacles_of_neighbours
from wavespec.schema.tiled_loops import SOME_TILE, with_tiled_loops

_TAKEN: Final = (Bitcast, Cast, Formula, Index, Iterate, Mma, Read, Reduce, Register, Size, Write, *ELEMENTWISE)
"""What a graph with packed rows may have."""
_LEAVE_OUT = "Leave out 'pack'."


class PackNotPossible(WavespecError, code="pack-not-possible"):
    """Rows of two dims that one tile cannot have."""

    def __init__(self, where: Where, dim: str, why: str, hint: str) -> None:
        super().__init__(where, f"{quote(dim)} has no packed rows: {why}.", hints=[hint], about=[dim])


def packed(spec: KernelSpec) -> KernelSpec:
    """The spec with rows as its schedule packs them; what a call gets and gives stays.

    Raises:
        PackNotPossible: rows of something else, at the schedule.
    """
    schedule = spec.schedule
    assert schedule is not None
    ((rows, (of, shared)),) = schedule.pack.items()
    found = _obstacles(spec, rows, of, shared) if isinstance(shared, str) else _of_count(spec, rows, of, shared)
    for why, hint in found:
        raise PackNotPossible(schedule.where_key("pack", rows), rows, why, hint)
    if not isinstance(shared, str):
        return Neighbours(spec, rows, of, shared).spec_of_rows(schedule)
    if rows != of:
        return _Groups(spec, rows, of, shared).spec_of_rows(schedule)
    made = _own_rows(spec, of, shared).spec_of_rows(schedule)
    if any(every(Mma, spec.graph)) or not any(every(Mma, made.graph)):
        why = f"lanes sum no products of what neighbours share along {quote(shared)}"
        raise PackNotPossible(schedule.where_key("pack", rows), rows, why, "Write 'pack: {ROWS: [HEADS, GROUPS]}'.")
    return made


def with_rows_of_groups(spec: KernelSpec, of: str) -> tuple[str, str, KernelSpec] | None:
    """For a spec without tiles: a dim whose elements neighbours along ``of`` share in what is read, the dim of these
    neighbours, and the spec whose rows they are; nothing where such have no products of matrices.
    """
    own, spec = spec.constraints, with_tiled_loops(spec)
    grid = Workgroup(dim=of, tile=Num(SOME_TILE), axis=0)
    for read in every(Read, spec.graph):
        for shared, place in read.at.items():
            if str(place) not in _groups(of, shared):
                continue
            known = (*spec.constraints, grid, Assume(condition=parse_expression(f"{of} % {shared} == 0")))
            tiled = spec.model_copy(update={"constraints": known})
            if any(_obstacles(tiled, of, of, shared)):
                continue
            packing = _own_rows(tiled, of, shared)
            try:
                made = packing.spec_of_rows(Schedule())
            except WavespecError:  # what lanes made has its dims in another order
                continue
            if any(every(Mma, made.graph)):
                return shared, packing.packed, made.model_copy(update={"constraints": own, "schedule": None})
    return None


def _own_rows(spec: KernelSpec, of: str, shared: str) -> OwnRows:
    groups = _groups(of, shared)
    return OwnRows(spec, of, shared, lambda place: str(place) in groups)


def shared_by(spec: KernelSpec, rows: str, of: str) -> str:
    """The dim that neighbours along ``of`` share in what is read, where rows can be packed by it; else nothing.

    ``spec``: with a tile for the rows, and the grid counting ``of`` one by one.
    """
    for read in every(Read, plain_graph(spec)[0]):
        for shared, place in read.at.items():
            if str(place) in _groups(of, shared) and not any(_obstacles(spec, rows, of, shared)):
                return shared
    return ""


def _groups(of: str, shared: str) -> frozenset[str]:
    """Indices of the group that an element belongs to."""
    each = f"(size({of}) // size({shared}))"
    return frozenset(str(parse_index(text)) for text in (f"{of} * size({shared}) // size({of})", f"{of} // {each}"))


def _obstacles(spec: KernelSpec, rows: str, of: str, shared: str) -> Iterator[tuple[str, str]]:
    """Why rows cannot be packed, each with what to do about it."""
    for dim in (rows, of, shared):
        if dim not in spec.dims or not dim.isidentifier():
            yield f"{quote(dim)} is no dim of the spec", "Write 'pack: {ROWS: [HEADS, GROUPS]}', of dims with names."
            return
    if shared in (rows, of):
        yield "it takes another dim that they share", "Write 'pack: {ROWS: [HEADS, GROUPS]}'."
        return
    whole = f"{of} % {shared} == 0"
    if whole not in [str(one.condition) for one in spec.constraints if isinstance(one, Assume)]:
        yield f"{quote(of)} may be no multiple of {quote(shared)}", f"Add {{assume: {whole}}} to 'constraints'."
    grid = {one.dim: one for one in spec.constraints if isinstance(one, Workgroup)}
    if any(grid[dim].end is not None or grid[dim].order is not None for dim in (rows, of) if dim in grid):
        yield "its tiles have an order, or an end", "Leave out 'order' and 'end', or write 'pack: {ROWS: [HEADS, 4]}'."
    elif shared in grid:
        yield f"the grid counts {quote(shared)}", _LEAVE_OUT
    yield from _of_any(spec, rows, of, _TAKEN)


def _of_count(spec: KernelSpec, rows: str, of: str, count: int) -> Iterator[tuple[str, str]]:
    """The same of so many neighbours."""
    for dim in (rows, of):
        if dim not in spec.dims or not dim.isidentifier():
            yield f"{quote(dim)} is no dim of the spec", "Write 'pack: {ROWS: [HEADS, 4]}', of dims with names."
            return
    yield from _of_any(spec, rows, of, (*_TAKEN, Branch))
    yield from obstacles_of_neighbours(spec, rows, of, count)


def _of_any(spec: KernelSpec, rows: str, of: str, taken: tuple[type, ...]) -> Iterator[tuple[str, str]]:
    grid = {one.dim: one for one in spec.constraints if isinstance(one, Workgroup)}
    if rows not in grid or of not in grid or (rows != of and str(grid[of].tile) != "1"):
        yield f"the grid does not count {quote(of)} one by one, beside tiles of the rows", _LEAVE_OUT
    for one in spec.constraints:
        others = (rows, of) if isinstance(one, Tiling) else (of,) if isinstance(one, Wave) and of != rows else ()
        if isinstance(one, Tiling | Wave) and one.dim in others:
            yield f"{quote(one.dim)} is split in another way, too", _LEAVE_OUT
    for op in walk(spec.graph):
        if not isinstance(op, taken) or (isinstance(op, Write) and op.combine):
            yield f"the graph has {quote(op.word)}" + (" with 'combine'" if isinstance(op, Write) else ""), _LEAVE_OUT
        elif isinstance(op, Reduce) and not {rows, of}.isdisjoint(op.along):
            yield f"{quote(op.name)} joins elements along it", _LEAVE_OUT
    types = plain_graph(spec)[1]
    for write in (op for op in walk(spec.graph) if isinstance(op, Write)):
        own = {rows, of} & {*types[write.value].dims} if write.value in types else {rows, of}
        if own not in ({rows, of}, set[str]()):
            yield f"{quote(write.value)} has one of both dims alone", _LEAVE_OUT


class _Groups(Packing):
    """Rows of all elements of ``of`` that share one of ``shared``, head by head."""

    def __init__(self, spec: KernelSpec, rows: str, of: str, shared: str) -> None:
        packed = free_name(spec, f"{of}_{rows}")
        places = {
            of: f"({shared} * (size({of}) // size({shared})) + {packed} // size({rows}))",
            rows: f"({packed} % size({rows}))",
        }
        size = Dim(equals=parse_expression(f"{of} // {shared} * {rows}"))
        super().__init__(spec, rows, of, shared, packed, places, {packed: size})
        self.groups = _groups(of, shared)

    def is_of_all(self, place: Expression) -> bool:
        return str(place) in self.groups

    def place(self, place: Expression) -> Expression:
        return parse_index(self.shared) if self.is_of_all(place) else super().place(place)
