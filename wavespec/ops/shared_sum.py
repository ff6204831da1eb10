"""`shared_sum`: sums that workgroups have of parts of the steps of a tile, added up by the one that is there last."""

from __future__ import annotations

import math
from collections.abc import Sequence

from wavespec.ir.dtype import DTYPES
from wavespec.ir.expr import Expr, const, maximum, minimum, symbol
from wavespec.ir.kernel import Memory, Op, Region, Value
from wavespec.ir.thread import ThreadBuilder
from wavespec.ops.contexts import ThreadContext

_COUNT = DTYPES["i32"]
_ACCESS_BYTES = 16
MOST_PARTS = 16
"""Workgroups that share out the steps of a tile."""


def to_thread(op: Op, context: ThreadContext) -> None:
    """Nothing where the tile has one part.  Else lanes lay down what they have, the workgroup counts itself, and the
    last one takes what all have laid down, part after part, so that repeats are equal: of two, what the other has."""
    outer, own = context.build, context.fragments[op.operands[0].name]
    inside, sums, last = outer.nested(), _like(outer, own), outer.value("last", _COUNT, 1)
    arrived = _lay_down(op, sums, context, inside)
    is_last = maximum(0, minimum(1, arrived - op["parts"] + 2))
    joined = _joined(op, sums, context, inside, is_last)
    said = inside.value("last", _COUNT, 1)
    inside.add("coordinates", (), (said,), places=(is_last,))
    one = outer.constant(1, _COUNT, 1)
    branch = _symbol(context, "shared", 1)
    *results, last = outer.loop(
        branch.args[0],
        0,
        minimum(1, op["parts"] - 1),
        1,
        (*own, one),
        (*sums, last),
        tuple(inside.ops),
        (*joined, said),
        once=True,
    )
    outer.add("bind", (last,), (), symbol=op["symbol"])
    context.fragments[op.result.name] = tuple(results)


def _lay_down(op: Op, sums: Sequence[Value], context: ThreadContext, build: ThreadBuilder) -> Expr:
    """How many workgroups were there before this one: the number of those that a counter has seen."""
    kernel, memory = context.kernel, context.kernel.memory(op["memory"])
    for place, part, start, width in _accesses(op, sums, context, op["part"]):
        build.store(build.slice(part, start, width), memory.name, place)
    told = Memory(f"{op['counter']}.told", _COUNT, (), (), "shared")
    context.memories.append(told)
    first = kernel.symbol("lane") + kernel.wave_number * kernel.lanes
    build.add("barrier", (), (), first=const(0), waves=kernel.wave_count)
    counting = build.nested()
    seen = counting.atomic(
        "add", (counting.constant(1, _COUNT, 1),), op["counter"], op["tile"], old="seen", ordered=True
    )
    assert seen is not None
    counting.store(seen, told.name, const(0))
    build.add("if", (), (), Region((), tuple(counting.ops), ()), mask=((first, const(1)),))
    build.add("barrier", (), (), first=const(0), waves=kernel.wave_count)
    number, found = build.load(told.name, _COUNT, 1, const(0), hint="seen"), _symbol(context, "arrived", MOST_PARTS)
    build.add("bind", (number,), (), symbol=found.args[0])
    return found


def _joined(
    op: Op, sums: Sequence[Value], context: ThreadContext, build: ThreadBuilder, is_last: Expr
) -> tuple[Value, ...]:
    """What all have laid down, where this workgroup is the last one, which sets the counter back."""
    kernel, inside = context.kernel, build.nested()
    first = kernel.symbol("lane") + kernel.wave_number * kernel.lanes
    reset = inside.nested()
    reset.atomic("exchange", (reset.constant(0, _COUNT, 1),), op["counter"], op["tile"])
    inside.add("if", (), (), Region((), tuple(reset.ops), ()), mask=((first, const(1)),))
    part, memory, step = _symbol(context, "part_of_sum", MOST_PARTS), kernel.memory(op["memory"]), inside.nested()
    totals, loaded = _like(build, sums), dict[str, list[Value]]()
    for place, value, _, width in _accesses(op, totals, context, part):
        found = step.load(memory.name, memory.dtype, width, place, hint=value.name)
        loaded.setdefault(value.name, []).append(found)
    added = tuple(
        step.elementwise("add", total, step.pack(loaded[total.name], total.name), hint=total.name) for total in totals
    )
    of_two = maximum(0, minimum(1, 3 - op["parts"]))  # a sum of two is the same from either side
    arguments, start = _like(build, sums), _like(inside, sums)
    cleared = inside.nested()
    zeros = tuple(cleared.constant(0.0, memory.dtype, value.vector.elements) for value in sums)
    more = _symbol(context, "of_more", 1)
    start = inside.loop(more.args[0], 0, 1 - of_two, 1, arguments, start, tuple(cleared.ops), zeros, once=True)
    first, end = of_two * (1 - op["part"]), op["parts"] - of_two * op["part"]
    total = inside.loop(part.args[0], first, end, 1, start, totals, tuple(step.ops), added)
    taken = _symbol(context, "taken_last", 1)
    return build.loop(taken.args[0], 0, is_last, 1, tuple(sums), arguments, tuple(inside.ops), total, once=True)


def _accesses(op: Op, sums: Sequence[Value], context: ThreadContext, part: Expr) -> list[tuple[Expr, Value, int, int]]:
    """Where lanes lay down their parts of values: the place, the value, where the part starts, and how long it is.

    Lanes of a wave lie side by side, one wide access each."""
    kernel = context.kernel
    most = _ACCESS_BYTES // sums[0].vector.dtype.bytes
    width = math.gcd(most, *(value.vector.elements for value in sums))
    own = sum(value.vector.elements for value in sums)
    threads = kernel.wave_count * kernel.lanes
    thread = kernel.symbol("lane") + kernel.wave_number * kernel.lanes
    start = (op["tile"] * op["parts"] + part) * (own * threads) + thread * width
    places = ((value, at) for value in sums for at in range(0, value.vector.elements, width))
    return [(start + number * threads * width, value, at, width) for number, (value, at) in enumerate(places)]


def _like(build: ThreadBuilder, values: Sequence[Value]) -> tuple[Value, ...]:
    return tuple(build.value(value.name, value.vector.dtype, value.vector.elements) for value in values)


def _symbol(context: ThreadContext, name: str, most: int) -> Expr:
    made = symbol(context.build.fresh(name), 0, most)
    context.symbols.append(made)
    return made
