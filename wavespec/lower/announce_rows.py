"""Thread kernel in, thread kernel out: products that read rows in place announce those that they read next."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar, NamedTuple

from wavespec.ir.expr import Expr, const, symbol
from wavespec.ir.kernel import Kernel, Op, Region, Value, attribute_pairs, rewrite
from wavespec.ir.rewriting import substituted
from wavespec.ir.thread import decisive
from wavespec.ir.thread_ops import FOR, LOAD, MMA
from wavespec.lower.base import Pass, fresh_names
from wavespec.lower.thread_properties import is_of_lanes, symbols_are_in_scope
from wavespec.targets.machine import Machine

LINE_BITS = 512
"""Of a line of the caches."""
_WORD_BITS = 32
"""Of what a product spreads over a vector: an element, or a group of them along k."""


class _Rows(NamedTuple):
    """What a loop of products reads of one input, a word of each row in a step; ``ahead``: how much further on the rows
    begin in the next step of a loop around it; ``line``: elements of a line."""

    loads: tuple[Op, ...]
    ahead: Expr
    line: int


class AnnounceRows(Pass):
    """Announce, where products read a word of each of several rows in a step, the rows of the next tile.

    Before: a loop over k reads words of as many rows of an input as a tile has; a loop around it moves on to the rows
            behind these.
    After:  the loop runs line by line; in front of each line the same line of all rows of the next tile is announced
            (``prefetch``).  So many rows at once are more than machines follow by themselves.
    """

    name: ClassVar[str] = "announce-rows"
    requires = (is_of_lanes, symbols_are_in_scope)

    def applies_to(self, machine: Machine) -> bool:
        return machine.globals.prefetch

    def apply(self, kernel: Kernel, machine: Machine) -> Kernel:
        fresh, added = fresh_names(kernel), list[Expr]()
        inputs = {memory.name for memory in kernel.memories if memory.role == "input"}

        def outside(outer: Op) -> tuple[Op, ...]:
            def inside(loop: Op) -> tuple[Op, ...]:
                rows = _rows(loop, outer, kernel, inputs)
                if rows is None:
                    return (loop,)
                line = symbol(fresh("line"), 0, kernel.symbol(loop["induction"]).high, rows.line)
                added.append(line)
                return (_line_by_line(loop, rows, kernel.symbol(loop["induction"]), line, fresh),)

            if outer.operands:
                return (outer,)
            return (replace(outer, region=replace(outer.body, ops=rewrite(outer.body.ops, inside, FOR))),)

        body = rewrite(kernel.body, outside, FOR)
        return replace(kernel.with_symbols(*added), body=body) if added else kernel


def _rows(loop: Op, outer: Op, kernel: Kernel, inputs: set[str]) -> _Rows | None:
    """The rows that products of a loop read in place, where the next step of ``outer`` is as far from each step."""
    if loop["lower"] is not const(0) or loop.get("goes_on") is not None or loop["unroll"] != 1:
        return None
    if not any(op.is_(MMA) for op in loop.body.ops):
        return None
    loads = tuple(op for op in loop.body.ops if op.is_(LOAD) and op["memory"] in inputs)
    if len(loads) < 2 or any(op["memory"] != loads[0]["memory"] for op in loads):
        return None
    others = {op["induction"] for op in kernel.walk() if op.is_(FOR)} - {outer["induction"], loop["induction"]}
    if any(_is_tap(op, others) for op in loads):
        return None
    vector = loads[0].result.vector
    line = LINE_BITS // vector.dtype.bits
    if vector.elements * vector.dtype.bits > _WORD_BITS or loop["upper"].divisor % line:
        return None
    last = kernel.symbol(loop["induction"]).high
    if last is not None and last < line:  # of one line, as this makes them
        return None
    following = {outer["induction"]: kernel.symbol(outer["induction"]) + outer["step"]}
    ways = {op["offset"].substitute(following) - op["offset"] for op in loads}
    ahead = ways.pop()
    if ways or ahead is const(0) or not {outer["induction"], loop["induction"]}.isdisjoint(ahead.symbols):
        return None
    return _Rows(loads, ahead, line)


def _is_tap(load: Op, loops: set[str]) -> bool:
    """Whether other loops say how far in front of the tensor a row may be: of neighbours of a place, which a step
    before has read."""
    return any(left is const(-1) and not loops.isdisjoint(right.symbols) for left, right in decisive(load["mask"]))


def _line_by_line(loop: Op, rows: _Rows, index: Expr, line: Expr, fresh: Callable[[str], str]) -> Op:
    """The loop in one over lines, each of which begins with announcements."""
    first = {loop["induction"]: line}
    places = ({"memory": op["memory"], "offset": op["offset"].substitute(first) + rows.ahead} for op in rows.loads)
    hints = [Op("prefetch", attributes=attribute_pairs(place), span=loop.span) for place in places]
    carried = tuple(Value(fresh(one.name), one.type) for one in loop.body.arguments)
    results = tuple(Value(fresh(one.name), one.type) for one in loop.results)
    inside = tuple(substituted(op, {loop["induction"]: line + index}) for op in loop.body.ops)
    inner = replace(_until(loop, const(rows.line)), operands=carried, results=results)
    inner = replace(inner, region=replace(loop.body, ops=inside))
    outer = {"induction": line.args[0], "step": const(rows.line)}
    changed = replace(loop, attributes=attribute_pairs({**dict(loop.attributes), **outer}))
    return replace(changed, region=Region(carried, (*hints, inner), results))


def _until(loop: Op, upper: Expr) -> Op:
    return replace(loop, attributes=attribute_pairs({**dict(loop.attributes), "upper": upper}))
