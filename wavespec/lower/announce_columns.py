"""Thread kernel in, thread kernel out: copies of a few columns of many rows announce the columns that come next."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import ClassVar

from wavespec.ir.expr import Expr
from wavespec.ir.kernel import Kernel, Op, attribute_pairs, rewrite
from wavespec.ir.thread_ops import FOR, LOAD, MMA, STORE
from wavespec.lower.announce_rows import LINE_BITS
from wavespec.lower.base import Pass
from wavespec.lower.thread_properties import is_of_lanes
from wavespec.targets.machine import Machine

_MOST_LINES = 32
"""Announced in one step; more are no hints but a load of their own."""


class AnnounceColumns(Pass):
    """Announce, where a copy takes a few columns of row after row of a mapped input, the next columns of each row.

    Before: a loop over blocks of columns has one over rows inside, which loads a block of each and lays it down in
            memory of the workgroup, as panels of pixels are made.
    After:  a step of the inner loop begins with announcements (``prefetch``) of the lines behind those that it loads,
            which the next block has in the same rows.  Rows are so far apart, and so many, that machines do not follow
            them by themselves.
    """

    name: ClassVar[str] = "announce-columns"
    requires = (is_of_lanes,)

    def applies_to(self, machine: Machine) -> bool:
        return machine.globals.prefetch

    def apply(self, kernel: Kernel, machine: Machine) -> Kernel:
        mapped = {one.name for one in kernel.memories if one.role == "input" and one.mapped}
        local = {one.name for one in kernel.memories if one.space != "global"}

        def change(outer: Op) -> tuple[Op, ...]:
            def inside(op: Op) -> Op:
                is_copy = op.is_(FOR) and any(one.is_(STORE) and one["memory"] in local for one in op.body.ops)
                if not is_copy or any(one.is_(MMA) or one.region for one in op.body.ops):
                    return op
                hints = tuple(_hints(op, outer, mapped, kernel))
                is_hinted = 0 < len(hints) <= _MOST_LINES
                return replace(op, region=replace(op.body, ops=(*hints, *op.body.ops))) if is_hinted else op

            return (replace(outer, region=replace(outer.body, ops=tuple(map(inside, outer.body.ops)))),)

        return replace(kernel, body=rewrite(kernel.body, change, FOR))


def _hints(loop: Op, outer: Op, mapped: set[str], kernel: Kernel) -> Iterator[Op]:
    """Of each row that a step of a loop loads from, where the next step of ``outer`` goes on in it."""
    index, around = kernel.symbol(loop["induction"]), kernel.symbol(outer["induction"])
    last = dict[tuple[str, Expr], tuple[int, Op]]()
    for op in loop.body.ops:
        if not op.is_(LOAD) or op["memory"] not in mapped:
            continue
        offset, elements = op["offset"], op.result.vector.elements
        ahead = offset.substitute({outer["induction"]: around + outer["step"]}) - offset
        along = offset.substitute({loop["induction"]: index + loop["step"]}) - offset
        if not ahead.is_const or ahead.value != outer["step"].value or along.is_const:
            return
        end = offset.constant_part() + elements - 1
        row = op["memory"], offset - offset.constant_part()
        if row not in last or last[row][0] < end:
            last[row] = end, op
    for (memory, row), (end, op) in last.items():
        line = LINE_BITS // op.result.vector.dtype.bits
        for behind in range(0, outer["step"].value, line):
            place = {"memory": memory, "offset": row + end + outer["step"] - behind}
            yield Op("prefetch", attributes=attribute_pairs(place), span=op.span)
