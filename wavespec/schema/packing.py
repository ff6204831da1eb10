"""Names of rows and of what has them go in; the statements and constraints of a spec with packed rows come out."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from wavespec.schema.language.base import Position
from wavespec.schema.language.constraints import AnyConstraint, Wave, Workgroup
from wavespec.schema.language.expression_parser import parse_expression
from wavespec.schema.language.expressions import Expression
from wavespec.schema.language.index_parser import parse_index
from wavespec.schema.language.models import Dim, KernelSpec, Schedule
from wavespec.schema.ops import AnyOp, Branch, Formula, Index, Iterate, Read, Register, Write

_INDEX_OF: Final = r"\bindex\(\s*({})\s*\)"
_PLACE: Final = re.compile(r"size\([^()]*\)|[A-Za-z_][\w.]*")


class Packing:
    """``rows`` and ``of`` are one dim of tiles, ``packed``, and the grid counts ``shared`` in place of ``of``.

    ``places``: of both dims in terms of these, for mappings; ``dims``: those that the spec gets.
    """

    def __init__(
        self,
        spec: KernelSpec,
        rows: str,
        of: str,
        shared: str,
        packed: str,
        places: Mapping[str, str],
        dims: Mapping[str, Dim],
    ) -> None:
        self.spec, self.rows, self.of, self.shared, self.packed = spec, rows, of, shared, packed
        self.places, self.dims = places, dims
        whole = re.compile(rf"(?<!\w)(?<!size\()({packed}|{shared})(?!\w)")
        self.indices = {dim: whole.sub(r"index(\1)", place) for dim, place in places.items()}

    def spec_of_rows(self, schedule: Schedule) -> KernelSpec:
        update = {
            "dims": {**self.spec.dims, **self.dims},
            "constraints": tuple(map(self.constraint, self.spec.constraints)),
            "graph": self._body(self.spec.graph),
            "schedule": schedule.model_copy(update={"pack": {}}),
        }
        return self.spec.model_copy(update=update)

    def constraint(self, one: AnyConstraint) -> AnyConstraint:
        if not isinstance(one, Workgroup | Wave) or one.dim not in (self.rows, self.of):
            return one
        return changed(one, dim=self.packed if one.dim == self.rows else self.shared)

    def bound(self, bound: Expression) -> Expression:
        """A bound, or a condition, for the tile that has all elements of both dims: it leaves out what changes none of
        them."""
        text = str(bound)
        for dim in self.places:
            text = text.replace(f"start({dim})", "0").replace(f"end({dim})", dim)
        return parse_expression(text)

    def is_of_all(self, place: Expression) -> bool:
        """Whether a place along ``shared`` is that of all elements of ``of`` that share it."""
        raise NotImplementedError

    def place(self, place: Expression) -> Expression:
        """An index with the places of elements in place of the names of dims."""
        return parse_index(_PLACE.sub(lambda found: self.places.get(found[0], found[0]), str(place)))

    def _body(self, body: Sequence[AnyOp]) -> tuple[AnyOp, ...]:
        return tuple(map(self._statement, body))

    def _statement(self, op: AnyOp) -> AnyOp:
        match op:
            case Iterate():
                bounds = {key: one and self.bound(one) for key, one in (("start", op.start), ("end", op.end))}
                return changed(op.with_bodies(self._body), **bounds)
            case Branch():
                return changed(op.with_bodies(self._body), condition=self.bound(op.condition))
            case Read():
                return self._read(op)
            case Write():
                return changed(op, at=self._mapping(self.spec.tensors[op.to].shape, op.at))
            case Register():
                return changed(op, shape=self._dims(op.shape))
            case Formula():
                return changed(op, text=self._text(op.text))
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
        at = {dim: self.place(place) if self.is_of_all(place) else place for dim, place in op.at.items()}
        own = self.rows in dims or self.of in shape or any(self.of in words(place) for place in at.values())
        if not own and any(map(self.is_of_all, op.at.values())):
            at = {dim: place for dim, place in at.items() if str(place) != dim}
            return changed(op, dims=tuple(self.shared if dim == self.of else dim for dim in dims), at=at)
        every = (*dims, self.rows) if self.rows not in dims else dims
        return changed(op, dims=self._dims(every), at=self._mapping(shape, op.at))

    def _dims(self, dims: Sequence[str]) -> tuple[str, ...]:
        names = {self.rows: self.packed, self.of: self.shared}
        return tuple(names.get(dim, dim) for dim in dims)

    def _mapping(self, shape: Sequence[str], at: Mapping[str, Expression]) -> dict[str, Expression]:
        plain = {dim: parse_index(dim) for dim in shape if dim in self.places and dim not in at}
        return {dim: self.place(place) for dim, place in {**at, **plain}.items()}

    def _text(self, text: str) -> str:
        for dim, index in self.indices.items():
            text = re.sub(_INDEX_OF.format(dim), index, text)
        return text


def words(place: Expression) -> list[str]:
    """Names of dims and values in an index, those of sizes left out."""
    return [word for word in _PLACE.findall(str(place)) if not word.startswith("size(")]


def changed(part: Any, **update: object) -> Any:
    return part.model_copy(update=update)
