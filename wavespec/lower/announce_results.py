"""Thread kernel in, thread kernel out: stores to a little of each of many rows announce what comes next in the rows."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from wavespec.ir.expr import Expr
from wavespec.ir.kernel import Kernel, Op, attribute_pairs, rewrite
from wavespec.ir.thread_ops import DOT, FOR, LOAD, MMA, STORE
from wavespec.lower.announce_rows import LINE_BITS
from wavespec.lower.base import Pass
from wavespec.lower.thread_properties import is_of_lanes
from wavespec.targets.machine import Machine

_FEWEST_ROWS = 8
"""Fewer are followed by machines themselves, or by what they remember of stores to come."""
_MOST_LINES = 64
"""Announced in one step; more are no hints but a load of their own."""


class AnnounceResults(Pass):
    """Announce, where a loop writes the next few elements of each of many rows of a result, those behind them.

    Before: each step of a loop loads, and stores a vector or two of each of many rows, as transposes do.
    After:  a step begins with announcements (``prefetch``) of the lines that the next one stores to.  A store has to
            have its line first, and as many lines as a step has are more than the stores that a machine remembers.
            What goes past the caches (``cache = streaming``) is not announced.
    """

    name: ClassVar[str] = "announce-results"
    requires = (is_of_lanes,)

    def applies_to(self, machine: Machine) -> bool:
        return machine.globals.prefetch

    def apply(self, kernel: Kernel, machine: Machine) -> Kernel:
        results = {one.name for one in kernel.memories if one.role == "output" and one.space == "global"}

        def change(loop: Op) -> tuple[Op, ...]:
            ops = loop.body.ops
            if any(op.is_(MMA, DOT) or op.region for op in ops) or not any(op.is_(LOAD) for op in ops):
                return (loop,)
            hints = _hints(loop, results, kernel)
            if not hints:
                return (loop,)
            return (replace(loop, region=replace(loop.body, ops=(*hints, *ops))),)

        return replace(kernel, body=rewrite(kernel.body, change, FOR))


def _hints(loop: Op, results: set[str], kernel: Kernel) -> tuple[Op, ...]:
    """One for each line that the next step of a loop stores to, where it goes on in as many rows."""
    index = kernel.symbol(loop["induction"])
    last = dict[tuple[str, Expr, int], tuple[Op, Expr]]()
    rows = set[tuple[str, Expr]]()
    for op in loop.body.ops:
        if not op.is_(STORE) or op["memory"] not in results:
            continue
        vector, offset = op.operands[0].vector, op["offset"]
        line = LINE_BITS // vector.dtype.bits
        ahead = offset.substitute({loop["induction"]: index + loop["step"]}) - offset
        if op["valid"] is not None or op.get("cache") or not ahead.is_const or not 0 < ahead.value <= line:
            return ()
        row = offset - offset.constant_part()
        rows.add((op["memory"], row))
        last[op["memory"], row, offset.constant_part() // line] = op, offset + ahead
    if len(rows) < _FEWEST_ROWS or len(last) > _MOST_LINES:
        return ()
    return tuple(
        Op("prefetch", attributes=attribute_pairs({"memory": op["memory"], "offset": place}), span=op.span)
        for op, place in last.values()
    )
