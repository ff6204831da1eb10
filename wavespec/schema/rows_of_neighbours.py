"""`pack: {M: [H, 4]}`: rows of tiles are the elements of M for four neighbours along H, wherever tiles end.

A wave has as many rows of each neighbour, for elements of M in a row: with 64 rows 16 elements for each of four.  Rows
of a neighbour lie together in steps of a box, and tiles that end where values say have, in their last waves, no rows.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from wavespec.schema.language.constraints import AnyConstraint, Assume, Wave, Workgroup
from wavespec.schema.language.expression_parser import parse_expression
from wavespec.schema.language.expressions import Call, Compare, Expression, Name
from wavespec.schema.language.index_parser import parse_index
from wavespec.schema.language.models import Dim, KernelSpec
from wavespec.schema.made_kernels import free_name
from wavespec.schema.ops import Read, every
from wavespec.schema.packing import Packing, changed
from wavespec.schema.resolve import constant_values

_GROUPS: Final = (r"{of} \* size\((\w+)\) // size\({of}\)", r"{of} // \(size\({of}\) // size\((\w+)\)\)")
_ALONE: Final = r"(?:(?<=[-+] )|(?<=[(,])|(?<=, )|(?<!.)){}(?=$|[),]| [-+])"
"""What stands for itself in a sum, and is no part of a product."""
_LEAVE_OUT = "Leave out 'pack'."


def obstacles_of_neighbours(spec: KernelSpec, rows: str, of: str, count: int) -> Iterator[tuple[str, str]]:
    """Why so many neighbours along a dim cannot be rows of a tile, each with what to do about it."""
    groups = {group for read in every(Read, spec.graph) for place in read.at.values() for group in _shared(of, place)}
    if not groups:
        yield "neighbours share nothing that is read", _LEAVE_OUT
    known = [str(one.condition) for one in spec.constraints if isinstance(one, Assume)]
    for group in sorted(groups):
        wholes = [f"{of} % ({group} * {count}) == 0", f"{of} % ({count} * {group}) == 0"]
        if not any(str(parse_expression(whole)) in known for whole in wholes):
            why = f"{count} neighbours may read different elements of '{group}'"
            yield why, f"Add '{wholes[0]}' to the conditions of the case."
    if _rows_of_wave(spec, rows) % count:
        yield f"a wave has no multiple of {count} rows", "Let waves have more rows, or tiles fewer neighbours."


def _shared(of: str, place: Expression) -> list[str]:
    """Dims along which neighbours find the same elements."""
    return [group for pattern in _GROUPS for group in re.findall(_ALONE.format(pattern.format(of=of)), str(place))]


def _rows_of_wave(spec: KernelSpec, rows: str) -> int:
    """Rows that are of one wave; all of a tile where no wave says so."""
    known = constant_values(spec)
    tiles = {type(one): one.tile for one in spec.constraints if isinstance(one, Wave | Workgroup) and one.dim == rows}
    tile = tiles.get(Wave, tiles.get(Workgroup))
    return 1 if tile is None else tile.evaluate(known)


class Neighbours(Packing):
    """Rows of ``count`` neighbours along ``of``."""

    def __init__(self, spec: KernelSpec, rows: str, of: str, count: int) -> None:
        shared, packed = free_name(spec, f"{of}_by_{count}"), free_name(spec, f"{of}_{rows}")
        self.all = _rows_of_wave(spec, rows)
        self.each = self.all // count
        places = {
            of: f"({shared} * {count} + {packed} % {self.all} // {self.each})",
            rows: f"({packed} // {self.all} * {self.each} + {packed} % {self.each})",
        }
        dims = {
            shared: Dim(equals=parse_expression(f"{of} // {count}")),
            packed: Dim(equals=parse_expression(self._end(rows))),
        }
        super().__init__(spec, rows, of, shared, packed, places, dims)
        self.ends = {one.dim: one.end for one in spec.constraints if isinstance(one, Workgroup)}

    def _end(self, end: str) -> str:
        """Behind the packed rows of so many elements."""
        return f"(({end}) + {self.each - 1}) // {self.each} * {self.all}"

    def constraint(self, one: AnyConstraint) -> AnyConstraint:
        made = super().constraint(one)
        if not isinstance(one, Workgroup) or one.dim != self.rows or one.end is None:
            return made
        return changed(made, end=parse_expression(self._end(str(one.end))))

    def bound(self, bound: Expression) -> Expression:
        end = self.ends[self.rows]
        if end is not None and bound == Compare("<", Call("start", (Name(self.rows),)), end):
            return parse_expression(f"start({self.packed}) < {self._end(str(end))}")
        text = str(bound)
        for edge in ("start", "end"):
            text = text.replace(f"{edge}({self.rows})", f"({edge}({self.packed}) // {self.all} * {self.each})")
        text = text.replace(f"start({self.of})", "0").replace(f"end({self.of})", self.of)
        return parse_expression(text)

    def is_of_all(self, place: Expression) -> bool:
        return bool(_shared(self.of, place))

    def place(self, place: Expression) -> Expression:
        text = str(place)
        for pattern in _GROUPS:
            found = re.compile(_ALONE.format(pattern.format(of=self.of)))
            text = found.sub(rf"{self.shared} * size(\1) // size({self.shared})", text)
        return super().place(parse_index(text))
