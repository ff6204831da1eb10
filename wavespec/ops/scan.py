"""The scans: digit by digit of the places along a dim, registers, lanes and waves in the order of their strides."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from wavespec.ir.dtype import DTYPES, DType
from wavespec.ir.expr import Expr
from wavespec.ir.kernel import Op, Value
from wavespec.ir.layout import Layout, RegisterAxis
from wavespec.ops.broadcast import broadcast_fragments
from wavespec.ops.contexts import ReferenceContext, ThreadContext, TileContext
from wavespec.ops.digits import Digit, digits
from wavespec.ops.parts_of_waves import parts_of_waves
from wavespec.ops.reduce import identity
from wavespec.schema.ops.scan import Scan

_Place = tuple[int, ...]


def to_tile(statement: Scan, context: TileContext) -> None:
    value = context.names[statement.value]
    result = context.tile(statement.name, value.tile.dims, value.tile.dtype)
    operands = (value,) if statement.init is None else (value, context.names[statement.init])
    context.add(
        "scan",
        operands,
        (result,),
        statement.span,
        node=statement.name,
        dim=statement.dim,
        function=statement.scan.function,
    )
    context.names[statement.name] = result


def to_thread(op: Op, context: ThreadContext) -> None:
    """Small floats are joined in f32. What lies beyond the edge comes last, and changes nothing before it."""
    build, (value, *init) = context.build, op.operands
    layout, result, function = value.tile.layout, op.result, op["function"]
    assert layout is not None
    dtype = result.tile.dtype
    compute = DTYPES["f32"] if dtype.is_float and dtype.bits < 32 else dtype
    fragments = [build.cast(part, compute, result.name) for part in context.fragments[value.name]]
    scanned = _Scanner(op, context, layout, compute).run(fragments)
    for start in init:
        first = [build.cast(part, compute, result.name) for part in context.fragments[start.name]]
        wide = broadcast_fragments(build, start, first, layout)
        scanned = [build.elementwise(function, *both, hint=result.name) for both in zip(wide, scanned, strict=True)]
    context.fragments[result.name] = tuple(build.cast(part, dtype, result.name) for part in scanned)


class _Scanner:
    """Works on *units*: whole fragments where these follow each other along the dim, or lie across it; else elements.

    ``inside``: of each unit, everything joined up to each of its elements.  ``totals``: all of the places that the
    digits so far tell apart.  ``before``: of each unit, what those digits have in front of it; nothing for the first.
    """

    def __init__(self, op: Op, context: ThreadContext, layout: Layout, dtype: DType) -> None:
        self.op, self.context, self.build, self.layout, self.dtype = op, context, context.build, layout, dtype
        self.dim, self.function, self.hint = op["dim"], op["function"], op.result.name
        self.number = identity(self.function, dtype)
        self.flags: dict[Expr, Value] = {}

    def run(self, fragments: Sequence[Value]) -> list[Value]:
        """A fragment for each of ``fragments``."""
        axes, order, along = self._units()
        places = list(itertools.product(*(range(axis.extent) for axis in axes)))
        units = list(fragments)
        if len(units) < len(places):
            units = [self.build.slice(one, at, 1, self.hint) for one in units for at in range(one.vector.elements)]
        self.inside = dict(zip(places, map(self._within, units) if along else units, strict=True))
        self.totals = {place: self._last(unit) if along else unit for place, unit in self.inside.items()}
        self.before: dict[_Place, Value | None] = dict.fromkeys(places)
        self.done: set[int] = set()
        for digit in order:
            {"registers": self._registers, "lanes": self._lanes, "waves": self._waves}[digit.kind](digit)
        results = [self._joined(self.before[place], unit) for place, unit in self.inside.items()]
        size = len(results) // len(fragments)
        return [self.build.pack(results[at : at + size], self.hint) for at in range(0, len(results), size)]

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

    def _within(self, unit: Value) -> Value:
        """A run joined along itself: in steps of 1, 2, 4 ... where vectors are registers, else one by one."""
        build, size = self.build, unit.vector.elements
        if not self.context.machine.vector_bytes:
            parts = [build.slice(unit, at, 1, self.hint) for at in range(size)]
            return build.pack(list(itertools.accumulate(parts, self._join)), self.hint)
        step = 1
        while step < size:
            nothing = build.constant(self.number, self.dtype, step)
            unit = self._join(build.pack([nothing, build.slice(unit, 0, size - step, self.hint)], self.hint), unit)
            step *= 2
        return unit

    def _last(self, unit: Value) -> Value:
        return self.build.slice(unit, unit.vector.elements - 1, 1, self.hint)

    def _registers(self, digit: Digit) -> None:
        """Units of one lane: each has the totals of those before it."""
        at = digit.source
        assert isinstance(at, int)
        front: dict[_Place, Value] = {}
        totals: dict[_Place, Value] = {}
        for place, total in self.totals.items():
            first = (*place[:at], 0, *place[at + 1 :])
            if first in totals:
                front[place] = totals[first]
            totals[first] = self._join(totals[first], total) if first in totals else total
        self._put_before(front)
        self.totals = totals
        self.done.add(at)

    def _lanes(self, digit: Digit) -> None:
        """Lanes that differ in a bit exchange their totals; the one that has it set comes behind the other."""
        bit = digit.source
        assert isinstance(bit, int)
        if bit >= self.context.machine.lanes:
            self._apart([], [bit], self.context.kernel.symbol("lane") // bit % 2, 2)
            return
        others = {place: self.build.shuffle(total, bit, self.hint) for place, total in self.totals.items()}
        behind = self._flag(self.context.kernel.symbol("lane") // bit % 2)
        self._put_before({place: self._where(behind, other) for place, other in others.items()})
        self.totals = {place: self._join(total, others[place]) for place, total in self.totals.items()}

    def _waves(self, digit: Digit) -> None:
        name = str(digit.source)
        self._apart([name], [], self.context.kernel.symbol(name), digit.extent)

    def _apart(self, waves: Sequence[str], bits: Sequence[int], own: Expr, extent: int) -> None:
        """Waves, or lanes out of reach, lay down their totals; each, the ``own`` of ``extent``, has those of the ones
        before it."""
        found = parts_of_waves(self.context, list(self.totals.values()), waves, self.op.node or self.hint, bits)
        front = dict[_Place, Value]()
        for place, parts in zip(self.totals, found, strict=True):
            for number, part in enumerate(parts[:-1]):
                # 1 where this one comes later, else 0
                later = self._where(self._flag((own + extent - 1 - number) // extent), part)
                front[place] = self._join(front[place], later) if place in front else later
            self.totals[place] = list(itertools.accumulate(parts, self._join))[-1]
        self._put_before(front)

    def _put_before(self, front: dict[_Place, Value]) -> None:
        """What comes before a place comes before all units whose digits so far the place leaves out."""
        known: dict[tuple[str, str], Value] = {}
        for place, before in self.before.items():
            value = front.get(tuple(0 if at in self.done else number for at, number in enumerate(place)))
            if value is None:
                continue
            if before is not None:
                pair = value.name, before.name
                known[pair] = value = known[pair] if pair in known else self._join(value, before)
            self.before[place] = value

    def _flag(self, place: Expr) -> Value:
        """Whether an expression is not 0."""
        if place not in self.flags:
            number = self.build.value("place", DTYPES["i32"], 1)
            self.build.add("coordinates", (), (number,), places=(place,))
            zero = self.build.constant(0, DTYPES["i32"], 1)
            self.flags[place] = self.build.elementwise("ne", number, zero, hint="behind")
        return self.flags[place]

    def _where(self, flag: Value, value: Value) -> Value:
        """The value where the flag is set, else what changes nothing."""
        size = value.vector.elements
        nothing = self.build.constant(self.number, self.dtype, size)
        return self.build.elementwise("where", self.build.broadcast(flag, size), value, nothing, hint=self.hint)

    def _joined(self, before: Value | None, unit: Value) -> Value:
        if before is None:
            return unit
        if before.vector.elements < unit.vector.elements:
            before = self.build.broadcast(before, unit.vector.elements)
        return self._join(before, unit)

    def _join(self, left: Value, right: Value) -> Value:
        return self.build.elementwise(self.function, left, right, hint=self.hint)


def reference(statement: Scan, context: ReferenceContext) -> None:
    import torch

    value, dims = context.names[statement.value], context.dims[statement.value]
    axis, function = dims.index(statement.dim), statement.scan.function
    if function in ("add", "mul"):
        result = {"add": torch.cumsum, "mul": torch.cumprod}[function](value, axis).to(value.dtype)
    else:
        result = {"maximum": torch.cummax, "minimum": torch.cummin}[function](value, axis).values
    if statement.init is not None:
        own = context.dims[statement.init]
        start = context.names[statement.init].permute([own.index(dim) for dim in dims if dim != statement.dim])
        joins = {"add": torch.add, "mul": torch.mul, "maximum": torch.maximum, "minimum": torch.minimum}
        result = joins[function](start.unsqueeze(axis), result)
    context.define(statement.name, dims, result)
