"""Thread kernel in, thread kernel out: boxes deal out the rows of tiles, so that what a lane loads beside products lies
side by side."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from wavespec.ir.expr import Expr, const
from wavespec.ir.expr_value import evaluated
from wavespec.ir.kernel import Kernel, Op, Region, Value, VectorType, attribute_pairs
from wavespec.ir.rewriting import copied, substituted
from wavespec.ir.thread import row_axis
from wavespec.ir.thread_ops import BULK_COPY, FOR, LOAD, MMA_ASYNC, PACK, PAD, SLICE
from wavespec.lower.base import Pass, fresh_names
from wavespec.lower.thread_properties import is_of_lanes
from wavespec.schedule.buffer_ring import READS
from wavespec.targets.machine import Machine

_PAIR = 2
"""Columns side by side of a fragment that a lane has."""
_QUAD = 4
_FRAGMENT = _PAIR * _QUAD
"""Columns of a fragment."""
_DEALT = 4
"""Boxes of a tile."""
_RUN = _PAIR * _DEALT
"""Columns side by side of a tensor that a lane has then."""


class DealRows(Pass):
    """Copy the rows of tiles that products read in another order, so that lanes load 8 elements where they loaded 2.

    Before: a loop of products in whose steps ``bulk_copy`` brings rows of tiles, and in which lanes ``load`` tensors
            for the sums: of each fragment of 8 columns, the rows of one tile and those that the next product sums
            over, a lane has two.
    After:  each of four boxes of a tile has every fourth row.  Of four fragments a lane has 8 columns of the tensors
            that lie side by side, and loads them at once.  What is told columns by where they are is told anew.
    Cases:  loops in which nothing else depends on where a column is, and tensors whose rows begin and end at multiples
            of 8 elements, of 16 bytes at most.  No clusters, whose workgroups copy for each other.
    """

    name: ClassVar[str] = "deal-rows"
    requires = (is_of_lanes,)

    def applies_to(self, machine: Machine) -> bool:
        return machine.globals.bulk_box_steps >= _DEALT

    def apply(self, kernel: Kernel, machine: Machine) -> Kernel:
        if not kernel.producers or kernel.distribution.cluster > 1:
            return kernel
        loops = [op for op in kernel.walk() if op.is_(FOR) and any(inner.is_(BULK_COPY) for inner in op.body.ops)]
        loops = [loop for loop in loops if any(loop["induction"] in op["offset"].symbols for op in _loads(loop))]
        fresh, widest = fresh_names(kernel), machine.globals.access_bytes
        dealt = {id(loop): _Dealt.of(kernel, loop, fresh, widest) for loop in loops}
        if not dealt or None in dealt.values():
            return kernel
        return replace(kernel, body=_with(kernel.body, dealt, fresh))


def _with(ops: Sequence[Op], dealt: dict[int, _Dealt | None], fresh: Callable[[str], str]) -> tuple[Op, ...]:
    made, loops = list[Op](), list[_Dealt]()
    for op in (*ops, None):
        found = dealt.get(id(op))
        if loops and (found is None or found.loop["lower"] != loops[-1].loop["upper"]):
            made += _a_step_ahead(loops, fresh)
            loops.clear()
        if found is not None:
            loops.append(found)
        elif op is not None and op.region is not None:
            made.append(replace(op, region=replace(op.region, ops=_with(op.region.ops, dealt, fresh))))
        elif op is not None:
            made.append(op)
    return tuple(made)


def _a_step_ahead(loops: Sequence[_Dealt], fresh: Callable[[str], str]) -> Iterator[Op]:
    """Loops behind one another whose steps load for the next one, with the first step's loads in front of them."""
    carried, end = tuple[Value, ...](), loops[-1].loop["upper"]
    for dealt in loops:
        at, ops = dealt.loop["induction"], list(dealt.ops(end))
        loads = [op for op in ops if op.is_(LOAD) and at in op.symbols]
        if dealt is loops[0]:
            first = [copied(substituted(op, {at: dealt.loop["lower"]}), fresh, {}) for op in loads]
            carried = tuple(op.result for op in first)
            yield from first
        later = [copied(substituted(op, {at: dealt.at + dealt.loop["step"]}), fresh, {}) for op in loads]
        body = dealt.loop.body
        region = Region(
            (*body.arguments, *(op.result for op in loads)),
            (*later, *(op for op in ops if op not in loads)),
            (*body.yields, *(op.result for op in later)),
        )
        ends = tuple(Value(fresh(value.name), value.type) for value in carried)
        operands, results = (*dealt.loop.operands, *carried), (*dealt.loop.results, *ends)
        yield replace(dealt.loop, operands=operands, results=results, region=region)
        carried = ends


def _loads(loop: Op) -> list[Op]:
    return [op for op in loop.body.ops if op.is_(LOAD)]


@dataclass(frozen=True)
class _Dealt:
    """A loop whose columns are dealt: column ``8 j + 2 q + e`` of a step, of fragment ``j`` and lane ``q`` of four, is
    row ``32 (j % n) + 8 q + 4 e + j // n`` of its tiles, of ``n`` times 32 rows."""

    kernel: Kernel
    loop: Op
    fresh: Callable[[str], str]
    groups: dict[int, list[tuple[int, Op]]]
    """By the `id` of the first of some loads, all that become one, with their fragments."""

    @classmethod
    def of(cls, kernel: Kernel, loop: Op, fresh: Callable[[str], str], widest: int) -> _Dealt | None:
        at, step = loop["induction"], loop["step"]
        if not step.is_const or step.value % (_FRAGMENT * _DEALT):
            return None
        there = [op for op in loop.body.ops if any(at in inner.symbols for inner in op.walk())]
        copies, loads, pads = ([op for op in there if op.is_(one)] for one in (BULK_COPY, LOAD, PAD))
        if len(copies) + len(loads) + len(pads) != len(there):
            return None
        made = cls(kernel, loop, fresh, {})
        filled = {op["memory"] for op in copies}
        products = [op for op in loop.body.ops if op.is_(MMA_ASYNC)]
        if {op["b_memory"] for op in products} != filled or not all(map(made._is_of_rows, copies)):
            return None
        if any(
            op.get(key) in filled
            for op in kernel.walk()
            if not op.is_(MMA_ASYNC)
            for key in READS
            if not op.is_(BULK_COPY)
        ):
            return None
        if not all(made._fragment(op["start"]) is not None and op["stride"] == 1 for op in pads):
            return None
        return made if made._grouped(loads, widest) else None

    @property
    def rows(self) -> int:
        return self.loop["step"].value

    @property
    def at(self) -> Expr:
        return self.kernel.symbol(self.loop["induction"])

    @property
    def _first(self) -> Expr:
        """Of the columns of a lane."""
        return self.at + self.kernel.symbol("lane") % _QUAD * _PAIR

    def _is_of_rows(self, copy: Op) -> bool:
        plain = all(copy.get(key) is None for key in ("valid", "view", "windows", "offsets", "kept_bits"))
        axis = row_axis(copy["box"])
        places = [number for number, place in enumerate(copy["corner"]) if self.loop["induction"] in place.symbols]
        return plain and copy["box"][axis] == self.rows and places == [axis] and copy["corner"][axis] == self.at

    def _fragment(self, place: Expr) -> int | None:
        """The fragment of which it is where a lane has its first column."""
        offset = place - self._first
        number = offset.value // _FRAGMENT if offset.is_const else -1
        return number if 0 <= number < self.rows // _FRAGMENT and offset.value == number * _FRAGMENT else None

    def _dealt(self, fragment: int) -> Expr:
        """The row of a tile that is the first of two of a lane; the other one is four further on."""
        blocks = self.rows // (_FRAGMENT * _DEALT)
        lane = self.kernel.symbol("lane") % _QUAD
        return self.at + lane * _RUN + (fragment % blocks * _FRAGMENT * _DEALT + fragment // blocks)

    def _grouped(self, loads: Sequence[Op], widest: int) -> bool:
        """Find the loads that become one; whether there are some, and none of another kind."""
        found: dict[tuple[object, ...], dict[int, Op]] = defaultdict(dict)
        for op in loads:
            memory, rest = self.kernel.memory(op["memory"]), op["offset"] - self._first
            fragment, left = divmod(rest.constant_part(), _FRAGMENT)
            others = tuple(pair for pair in op["mask"] if self.loop["induction"] not in pair[0].symbols)
            ends = [pair for pair in op["mask"] if pair not in others]
            plain = op.result.vector.elements == _PAIR and op["valid"] is None and not left
            plain = plain and memory.role == "input" and _RUN * memory.dtype.bytes <= widest and not memory.is_packed
            plain = plain and self.loop["induction"] not in rest.symbols and rest.divisor % _FRAGMENT == 0
            for place, end in ends:
                plain = (
                    plain
                    and self._fragment(place) == fragment
                    and end.divisor % _RUN == 0
                    and end.symbols.isdisjoint(self.at.symbols)
                )
            if not plain or _depends_on_quad(self.kernel, rest):
                return False
            found[memory.name, rest - rest.constant_part(), others, len(ends)][fragment] = op
        for of_row in found.values():
            if sorted(of_row) != list(range(self.rows // _FRAGMENT)):
                return False
            blocks = self.rows // (_FRAGMENT * _DEALT)
            for block in range(blocks):
                group = [(number, of_row[number]) for number in range(block, len(of_row), blocks)]
                first = min((op for _, op in group), key=lambda op: next(n for n, one in enumerate(loads) if one is op))
                self.groups[id(first)] = group
        return bool(found)

    def ops(self, end: Expr) -> Iterator[Op]:
        """The body of the loop, which loads no columns from ``end`` on."""
        taken = {id(op) for group in self.groups.values() for _, op in group}
        for op in self.loop.body.ops:
            if op.is_(BULK_COPY):
                yield from self._boxes(op)
            elif id(op) in self.groups:
                yield from self._at_once(self.groups[id(op)], end)
            elif id(op) not in taken:
                fragment = self._fragment(op["start"]) if op.is_(PAD) else None
                yield op if fragment is None else op.with_(start=self._dealt(fragment), stride=_DEALT)

    def _boxes(self, copy: Op) -> Iterator[Op]:
        axis, memory = row_axis(copy["box"]), self.kernel.memory(copy["memory"])
        box, corner = list(copy["box"]), list(copy["corner"])
        box[axis] //= _DEALT
        row, *others = memory.dims
        for number in range(_DEALT):
            corner[axis] = self.at + number
            place = {row: const(number * box[axis]), **dict.fromkeys(others, const(0))}
            offset = copy["offset"] + memory.unswizzled_offset(place)
            yield copy.with_(box=tuple(box), corner=tuple(corner), offset=offset, row_step=_DEALT)

    def _at_once(self, group: Sequence[tuple[int, Op]], end: Expr) -> Iterator[Op]:
        """One load, and what each of the others was of it."""
        (fragment, first), *_ = group
        moved = {place: self._dealt(fragment) for place, _ in first["mask"] if self.loop["induction"] in place.symbols}
        mask = tuple((moved.get(place, place), stop) for place, stop in first["mask"])
        if not moved:  # a step ahead may be behind the last one
            mask = (*mask, (self._dealt(fragment), end))
        rest = first["offset"] - self._first - fragment * _FRAGMENT
        whole = Value(self.fresh(first.result.name), VectorType(first.result.vector.dtype, _RUN))
        yield replace(first, results=(whole,)).with_(offset=rest + self._dealt(fragment), mask=mask)
        for number, (_, op) in enumerate(group):
            ones = [Value(self.fresh(op.result.name), VectorType(op.result.vector.dtype, 1)) for _ in range(_PAIR)]
            for place, one in enumerate(ones):
                start = attribute_pairs({"start": number + _DEALT * place, "size": 1})
                yield Op(SLICE.name, (whole,), (one,), start, span=op.span)
            yield Op(PACK.name, tuple(ones), op.results, span=op.span)


def _depends_on_quad(kernel: Kernel, place: Expr) -> bool:
    """Whether it differs among four lanes that have the columns of a fragment."""
    others = {one.args[0]: number for number, one in enumerate(kernel.symbols, 3)}
    places = [evaluated(place, {**others, "lane": lane}) for lane in range(kernel.lanes)]
    return any(one != places[lane - lane % _QUAD] for lane, one in enumerate(places))
