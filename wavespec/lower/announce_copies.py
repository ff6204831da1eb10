"""Thread kernel in, thread kernel out: rows that the next tile of sums has copied are announced beside products."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import ClassVar

from wavespec.ir.expr import Expr, const
from wavespec.ir.kernel import Kernel, Op, attribute_pairs, rewrite
from wavespec.ir.thread_ops import FOR, LOAD, STORE
from wavespec.lower.announce_rows import LINE_BITS
from wavespec.lower.base import Pass
from wavespec.lower.spread_announcements import can_be_cut
from wavespec.lower.thread_properties import is_of_lanes, symbols_are_in_scope, waves_are_loops
from wavespec.targets.machine import Machine


class AnnounceCopies(Pass):
    """Announce, beside products, the rows of an input that are copied for the next tiles.

    Before: a step of a loop copies a few rows of an input to a memory of the workgroup, line by line, then multiplies
            what is there with one panel after the other.
    After:  in front of the products of each panel some lines of all rows that the next step copies are announced
            (``prefetch``); `spread-announcements` has them one after another.
    Cases:  rows that are not equally far from those of the next step, or from each other, as those that a table names,
            are left to be found.
    """

    name: ClassVar[str] = "announce-copies"
    requires = (is_of_lanes, symbols_are_in_scope, waves_are_loops)

    def applies_to(self, machine: Machine) -> bool:
        return machine.globals.prefetch and any(row.b.in_panels for row in machine.instructions)

    def apply(self, kernel: Kernel, machine: Machine) -> Kernel:
        inputs = {memory.name for memory in kernel.memories if memory.role == "input"}

        def change(outer: Op) -> tuple[Op, ...]:
            ops = list(outer.body.ops)
            for before, at in pairwise(place for place, op in enumerate(ops) if op.is_(FOR)):
                copy, panels = ops[before], ops[at]
                if outer.operands or panels.operands:
                    continue
                product = next(
                    (one for one in panels.body.ops if one.is_(FOR) and can_be_cut(one, kernel, machine)), None
                )
                hints = () if product is None else _hints(copy, product, panels, outer, kernel, inputs)
                if product is not None and hints:
                    place = panels.body.ops.index(product)
                    inside = (*panels.body.ops[:place], *hints, *panels.body.ops[place:])
                    ops[at] = replace(panels, region=replace(panels.body, ops=inside))
                    return (replace(outer, region=replace(outer.body, ops=tuple(ops))),)
            return (outer,)

        return replace(kernel, body=rewrite(kernel.body, change, FOR))


def _hints(copy: Op, product: Op, panels: Op, outer: Op, kernel: Kernel, inputs: set[str]) -> tuple[Op, ...]:
    """Announcements, in a turn of ``panels``, of lines that ``copy`` loads in the next turn of ``outer``."""
    loads = [op for op in copy.body.ops if op.is_(LOAD) and op["memory"] in inputs]
    read = {op["memory"] for op in product.body.ops if op.is_(LOAD)}
    stored = {op["memory"] for op in copy.body.ops if op.is_(STORE)}
    if len(loads) < 2 or stored.isdisjoint(read) or len({op["memory"] for op in loads}) > 1 or copy.operands:
        return ()
    following = {outer["induction"]: kernel.symbol(outer["induction"]) + outer["step"]}
    ahead = {op["offset"].substitute(following) - op["offset"] for op in loads}
    apart = {after["offset"] - before["offset"] for before, after in pairwise(loads)}
    counted = {loop["induction"] for loop in (outer, panels, copy)}
    if len(ahead) > 1 or len(apart) > 1 or any(not one.symbols.isdisjoint(counted) for one in (*ahead, *apart)):
        return ()
    places = _lines(copy, loads[0], panels, kernel)
    return tuple(
        Op("prefetch", attributes=attribute_pairs({"memory": op["memory"], "offset": place}), span=op.span)
        for op in loads
        for place in _places(op, {**following}, copy["induction"], places)
    )


def _lines(copy: Op, load: Op, panels: Op, kernel: Kernel) -> Sequence[Expr]:
    """Where along a row those lines begin that a turn of ``panels`` announces; all turns announce all lines."""
    last, turns, vector = kernel.symbol(copy["induction"]).high, panels["upper"].high, load.result.vector
    if last is None or turns is None or not copy["step"].is_const or copy["lower"] != const(0):
        return ()
    line = max(copy["step"].value, LINE_BITS // vector.dtype.bits)
    lines = last // line + 1
    turn = kernel.symbol(panels["induction"])
    return [(turn + first) * line for first in range(0, lines, turns)]


def _places(load: Op, following: dict[str, Expr], induction: str, lines: Sequence[Expr]) -> Iterator[Expr]:
    for line in lines:
        yield load["offset"].substitute({**following, induction: line})
