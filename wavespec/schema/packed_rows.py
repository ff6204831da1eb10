"""The plain spec of a case goes in; one whose tiles have, as their rows, the elements of two dims comes out.

`pack: {M: [H, G]}`: H // G neighbours along H share what is read along G, as the heads of a group share its keys.  Rows
of tiles are then the elements of M for all of these neighbours, and the grid counts the elements of G in place of H.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, cast

from wavespec.diagnostics import WavespecError, Where, quote
from wavespec.schema.checking.check_graph import plain_graph
from wavespec.schema.language.base import Position
from wavespec.schema.language.constraints import AnyConstraint, Assume, Tiling, Wave, Workgroup
from wavespec.schema.language.expression_parser import parse_expression
from wavespec.schema.language.expressions import Expression
from wavespec.schema.language.index_parser import parse_index
from wavespec.schema.language.models import Dim, KernelSpec, Schedule
from wavespec.schema.made_kernels import free_name
from wavespec.schema.ops import (
    AnyOp,
    Bitcast,
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

_TAKEN: Final = (Bitcast, Cast, Formula, Index, Iterate, Mma, Read, Reduce, Register, Size, Write, *ELEMENTWISE)
"""What a graph with packed rows may have."""
_LEAVE_OUT = "Leave out 'pack'."
_INDEX_OF: Final = r"\bindex\(\s*({})\s*\)"
_PLACE: Final = re.compile(r"size\([^()]*\)|[A-Za-z_][\w.]*")


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
    for why, hint in _obstacles(spec, rows, of, shared):
        raise PackNotPossible(schedule.where_key("pack", rows), rows, why, hint)
    return _Packing(spec, schedule, rows, of, shared).spec_of_rows()


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
    if len({rows, of, shared}) < len((rows, of, shared)):
        yield "it takes three dims", "Write 'pack: {ROWS: [HEADS, GROUPS]}'."
        return
    whole = f"{of} % {shared} == 0"
    if whole not in [str(one.condition) for one in spec.constraints if isinstance(one, Assume)]:
        yield f"{quote(of)} may be no multiple of {quote(shared)}", f"Add {{assume: {whole}}} to 'constraints'."
    grid = {one.dim: one for one in spec.constraints if isinstance(one, Workgroup)}
    if rows not in grid or of not in grid or shared in grid or str(grid[of].tile) != "1":
        yield f"the grid does not count {quote(of)} one by one, beside tiles of the rows", _LEAVE_OUT
    elif any(one.end is not None or one.order is not None for one in (grid[rows], grid[of])):
        yield "its tiles have an order, or an end", "Leave out 'order' and 'end' in this case."
    for one in spec.constraints:
        if (isinstance(one, Tiling) and one.dim in (rows, of)) or (isinstance(one, Wave) and one.dim == of):
            yield f"{quote(one.dim)} is split in another way, too", _LEAVE_OUT
    for op in walk(spec.graph):
        if not isinstance(op, _TAKEN) or (isinstance(op, Write) and op.combine):
            yield f"the graph has {quote(op.word)}" + (" with 'combine'" if isinstance(op, Write) else ""), _LEAVE_OUT
        elif isinstance(op, Reduce) and not {rows, of}.isdisjoint(op.along):
            yield f"{quote(op.name)} joins elements along it", _LEAVE_OUT
    types = plain_graph(spec)[1]
    for write in (op for op in walk(spec.graph) if isinstance(op, Write)):
        own = {rows, of} & {*types[write.value].dims} if write.value in types else {rows, of}
        if own not in ({rows, of}, set[str]()):
            yield f"{quote(write.value)} has one of both dims alone", _LEAVE_OUT


class _Packing:
    """The names of rows and groups; where an element of both is in the dims of the spec."""

    def __init__(self, spec: KernelSpec, schedule: Schedule, rows: str, of: str, shared: str) -> None:
        self.spec, self.schedule = spec, schedule
        self.rows, self.of, self.shared = rows, of, shared
        self.packed = free_name(spec, f"{of}_{rows}")
        self.places = {
            of: f"({shared} * (size({of}) // size({shared})) + {self.packed} // size({rows}))",
            rows: f"({self.packed} % size({rows}))",
        }
        self.indices = {
            of: f"(index({shared}) * (size({of}) // size({shared})) + index({self.packed}) // size({rows}))",
            rows: f"(index({self.packed}) % size({rows}))",
        }
        self.groups = _groups(of, shared)

    def spec_of_rows(self) -> KernelSpec:
        size = Dim(equals=parse_expression(f"{self.of} // {self.shared} * {self.rows}"))
        update = {
            "dims": {**self.spec.dims, self.packed: size},
            "constraints": tuple(map(self._constraint, self.spec.constraints)),
            "graph": self._body(self.spec.graph),
            "schedule": self.schedule.model_copy(update={"pack": {}}),
        }
        return self.spec.model_copy(update=update)

    def _constraint(self, one: AnyConstraint) -> AnyConstraint:
        if not isinstance(one, Workgroup | Wave) or one.dim not in (self.rows, self.of):
            return one
        return _changed(one, dim=self.packed if one.dim == self.rows else self.shared)

    def _body(self, body: Sequence[AnyOp]) -> tuple[AnyOp, ...]:
        return tuple(map(self._statement, body))

    def _statement(self, op: AnyOp) -> AnyOp:
        match op:
            case Iterate():
                bounds = {"start": self._bound(op.start), "end": self._bound(op.end)}
                return _changed(op.with_bodies(self._body), **bounds)
            case Read():
                return self._read(op)
            case Write():
                return _changed(op, at=self._mapping(self.spec.tensors[op.to].shape, op.at))
            case Register():
                return _changed(op, shape=self._dims(op.shape))
            case Formula():
                return _changed(op, text=self._text(op.text))
            case Index() if op.dim in self.places:
                made = Formula(name=op.name, text=f"{op.dtype}({self._text(f'index({op.dim})')})")
                made.was_written_at(cast("Mapping[Any, Position]", op.positions))
                return made
            case _:
                return op

    def _read(self, op: Read) -> Read:
        shape = self.spec.tensors[op.tensor].shape
        dims = op.dims or shape
        if {self.rows, self.of}.isdisjoint(dims):
            return op
        at = {dim: place for dim, place in op.at.items() if not (dim == self.shared and str(place) in self.groups)}
        by_group = self.rows not in dims and self.of not in shape and not any(self.of in _words(p) for p in at.values())
        if by_group and self.shared in shape:  # one for all of a group
            return _changed(op, dims=tuple(self.shared if dim == self.of else dim for dim in dims), at=at)
        own = (*dims, self.rows) if self.rows not in dims else dims
        return _changed(op, dims=self._dims(own), at=self._mapping(shape, op.at))

    def _dims(self, dims: Sequence[str]) -> tuple[str, ...]:
        names = {self.rows: self.packed, self.of: self.shared}
        return tuple(names.get(dim, dim) for dim in dims)

    def _mapping(self, shape: Sequence[str], at: Mapping[str, Expression]) -> dict[str, Expression]:
        plain = {dim: parse_index(dim) for dim in shape if dim in self.places and dim not in at}
        return {dim: self._place(place) for dim, place in {**at, **plain}.items()}

    def _place(self, place: Expression) -> Expression:
        """An index with the places of elements in place of the names of dims."""
        if str(place) in self.groups:
            return parse_index(self.shared)
        return parse_index(_PLACE.sub(lambda found: self.places.get(found[0], found[0]), str(place)))

    def _text(self, text: str) -> str:
        for dim, index in self.indices.items():
            text = re.sub(_INDEX_OF.format(dim), index, text)
        return text

    def _bound(self, bound: Expression | None) -> Expression | None:
        """A bound for the tile that has all elements of both dims: it leaves out what changes none of them."""
        if bound is None:
            return None
        text = str(bound)
        for dim in self.places:
            text = text.replace(f"start({dim})", "0").replace(f"end({dim})", dim)
        return parse_expression(text)


def _words(place: Expression) -> list[str]:
    """Names of dims and values in an index, those of sizes left out."""
    return [word for word in _PLACE.findall(str(place)) if not word.startswith("size(")]


def _changed(part: Any, **update: object) -> Any:
    return part.model_copy(update=update)
