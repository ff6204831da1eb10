"""Elements along a dim joined with all before them: digit by digit of their places, in registers, lanes and waves."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import TypeVar

from wavespec.ir.dtype import DTYPES
from wavespec.ir.expr import Expr
from wavespec.ir.kernel import Op, Value
from wavespec.ir.layout import Layout, RegisterAxis
from wavespec.ops.contexts import ThreadContext
from wavespec.ops.digits import Digit, digits
from wavespec.ops.joining import Joining, Unit
from wavespec.ops.parts_of_waves import parts_of_waves

_Place = tuple[int, ...]
_Part = TypeVar("_Part")


class Scanner:
    """Works on *units*: whole fragments where these follow each other along the dim, or lie across it; else elements.

    ``inside``: of each unit, everything joined up to each of its elements.  ``totals``: all of the places that the
    digits so far tell apart.  ``before``: of each unit, what those digits have in front of it; nothing for the first.
    ``reverse``: the last element comes first.
    """

    def __init__(
        self, op: Op, context: ThreadContext, layout: Layout, joining: Joining, *, reverse: bool = False
    ) -> None:
        self.op, self.context, self.build, self.layout = op, context, context.build, layout
        self.joining, self.reverse = joining, reverse
        self.dim, self.hint = op["dim"], op.results[0].name
        self.flags: dict[Expr, Value] = {}

    def run(self, values: Sequence[Sequence[Value]]) -> list[list[Value]]:
        """Of every value a fragment for each of its fragments; afterwards `totals` are those of the whole dim."""
        fragments = list(zip(*values, strict=True))
        axes, order, along = self._units()
        places = list(itertools.product(*(range(axis.extent) for axis in axes)))
        units = fragments
        if len(units) < len(places):
            units = [self._cut(one, at, 1) for one in units for at in range(one[0].vector.elements)]
        self.inside = dict(zip(places, map(self._within, units) if along else units, strict=True))
        self.totals = {place: self._last(unit) if along else unit for place, unit in self.inside.items()}
        self.before: dict[_Place, Unit | None] = dict.fromkeys(places)
        self.done: set[int] = set()
        for digit in order:
            {"registers": self._registers, "lanes": self._lanes, "waves": self._waves}[digit.kind](digit)
        results = [self._joined(self.before[place], unit) for place, unit in self.inside.items()]
        size = len(results) // len(fragments)
        packed = [self._packed(results[at : at + size]) for at in range(0, len(results), size)]
        return [list(value) for value in zip(*packed, strict=True)]

    def all_joined(self, count: int) -> list[list[Value]]:
        """Of every value, all elements along the dim joined, in fragments of ``count`` elements."""
        totals = [self.totals[place] for place in sorted(self.totals)]
        size = count // totals[0][0].vector.elements
        packed = [self._packed(totals[at : at + size]) for at in range(0, len(totals), size)]
        return [list(value) for value in zip(*packed, strict=True)]

    def join(self, left: Unit, right: Unit) -> Unit:
        return self.joining.join(self.build, left, right, self.hint, close_powers=self.context.machine.close_powers)

    def _units(self) -> tuple[tuple[RegisterAxis, ...], list[Digit], bool]:
        """The axes that count the units, the digits of these, and whether a unit is a run along the dim."""
        layout, kernel = self.layout, self.context.kernel
        inner = layout.axes[len(layout.repeats) :]
        strides = [axis.stride(self.dim) for axis in inner if axis.extent > 1]
        across = not any(strides)
        order = digits(self.op, layout, layout.axes, self.dim, kernel)
        run = len(strides) == 1 and strides[0] > 0 and order[0].stride == strides[0]
        if not across and not run:
            return layout.axes, order, False
        numbers = range(len(layout.repeats))
        return layout.repeats, [one for one in order if one.kind != "registers" or one.source in numbers], run

    def _within(self, unit: Unit) -> Unit:
        """A run joined along itself: in steps of 1, 2, 4 ... where vectors are registers, else one by one."""
        size = unit[0].vector.elements
        if not self.context.machine.vector_bytes:
            parts = self._in_order([self._cut(unit, at, 1) for at in range(size)])
            return self._packed(self._in_order(list(itertools.accumulate(parts, self.join))))
        step = 1
        while step < size:
            nothing = self._nothing(step)
            kept = self._cut(unit, step if self.reverse else 0, size - step)
            unit = self.join(self._packed([kept, nothing] if self.reverse else [nothing, kept]), unit)
            step *= 2
        return unit

    def _last(self, unit: Unit) -> Unit:
        return self._cut(unit, 0 if self.reverse else unit[0].vector.elements - 1, 1)

    def _registers(self, digit: Digit) -> None:
        """Units of one lane: each has the totals of those before it."""
        at = digit.source
        assert isinstance(at, int)
        front: dict[_Place, Unit] = {}
        totals: dict[_Place, Unit] = {}
        for place, total in self._in_order(list(self.totals.items())):
            first = (*place[:at], 0, *place[at + 1 :])
            if first in totals:
                front[place] = totals[first]
            totals[first] = self.join(totals[first], total) if first in totals else total
        self._put_before(front)
        self.totals = totals
        self.done.add(at)

    def _lanes(self, digit: Digit) -> None:
        """Lanes that differ in a bit exchange their totals; the one that has it set comes behind the other."""
        bit = digit.source
        assert isinstance(bit, int)
        own = self.context.kernel.symbol("lane") // bit % 2
        if bit >= self.context.machine.lanes:
            self._apart([], [bit], own, 2)
            return
        others = {
            place: tuple(self.build.shuffle(one, bit, self.hint) for one in total)
            for place, total in self.totals.items()
        }
        behind = self._flag(1 - own if self.reverse else own)
        self._put_before({place: self._where(behind, other) for place, other in others.items()})
        for place, total in self.totals.items():
            other = others[place]
            if self.joining.commutes:
                self.totals[place] = self.join(total, other)
            else:
                self.totals[place] = self.join(self._where(behind, other, total), self._where(behind, total, other))

    def _waves(self, digit: Digit) -> None:
        name = str(digit.source)
        self._apart([name], [], self.context.kernel.symbol(name), digit.extent)

    def _apart(self, waves: Sequence[str], bits: Sequence[int], own: Expr, extent: int) -> None:
        """Waves, or lanes out of reach, lay down their totals; each, the ``own`` of ``extent``, has those of the ones
        before it."""
        node = self.op.node or self.hint
        columns = zip(*self.totals.values(), strict=True)
        found = [parts_of_waves(self.context, list(column), waves, node, bits) for column in columns]
        own = extent - 1 - own if self.reverse else own
        front: dict[_Place, Unit] = {}
        for place, *apart in zip(self.totals, *found, strict=True):
            parts = self._in_order(list(zip(*apart, strict=True)))
            for number, part in enumerate(parts[:-1]):
                # 1 where this one comes later, else 0
                later = self._where(self._flag((own + extent - 1 - number) // extent), part)
                front[place] = self.join(front[place], later) if place in front else later
            self.totals[place] = list(itertools.accumulate(parts, self.join))[-1]
        self._put_before(front)

    def _put_before(self, front: Mapping[_Place, Unit]) -> None:
        """What comes before a place comes before all units whose digits so far the place leaves out."""
        known: dict[tuple[str, str], Unit] = {}
        for place, before in self.before.items():
            value = front.get(tuple(0 if at in self.done else number for at, number in enumerate(place)))
            if value is None:
                continue
            if before is not None:
                pair = value[0].name, before[0].name
                known[pair] = value = known[pair] if pair in known else self.join(value, before)
            self.before[place] = value

    def _flag(self, place: Expr) -> Value:
        """Whether an expression is not 0."""
        if place not in self.flags:
            number = self.build.value("place", DTYPES["i32"], 1)
            self.build.add("coordinates", (), (number,), places=(place,))
            zero = self.build.constant(0, DTYPES["i32"], 1)
            self.flags[place] = self.build.elementwise("ne", number, zero, hint="behind")
        return self.flags[place]

    def _where(self, flag: Value, unit: Unit, otherwise: Unit | None = None) -> Unit:
        """The unit where the flag is set, else another one, or what changes nothing."""
        size = unit[0].vector.elements
        chosen: list[Value] = []
        for one, other in zip(unit, otherwise or self._nothing(size), strict=True):
            chosen.append(self.build.elementwise("where", self.build.broadcast(flag, size), one, other, hint=self.hint))
        return tuple(chosen)

    def _nothing(self, size: int) -> Unit:
        """What changes nothing."""
        rows = zip(self.joining.identity, self.joining.dtypes, strict=True)
        return tuple(self.build.constant(number, DTYPES[dtype], size) for number, dtype in rows)

    def _joined(self, before: Unit | None, unit: Unit) -> Unit:
        if before is None:
            return unit
        size = unit[0].vector.elements
        if before[0].vector.elements < size:
            before = tuple(self.build.broadcast(one, size) for one in before)
        return self.join(before, unit)

    def _cut(self, unit: Unit, start: int, size: int) -> Unit:
        return tuple(self.build.slice(one, start, size, self.hint) for one in unit)

    def _packed(self, units: Sequence[Unit]) -> Unit:
        return tuple(self.build.pack(list(parts), self.hint) for parts in zip(*units, strict=True))

    def _in_order(self, parts: list[_Part]) -> list[_Part]:
        """In that in which they are joined."""
        return parts[::-1] if self.reverse else parts
