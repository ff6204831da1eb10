"""Thread kernel in, thread kernel out: while a row is computed with, the next one is on its way to the cache."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

from wavespec.ir.expr import Expr, minimum
from wavespec.ir.kernel import Kernel, Op, attribute_pairs, rewrite
from wavespec.ir.thread_ops import FOR, LOAD
from wavespec.lower.base import Pass
from wavespec.lower.thread_properties import is_of_lanes
from wavespec.targets.machine import Machine

_Place = tuple[str, Expr]


class FetchAhead(Pass):
    """Announce, where a loop reads again what one before it read, what that will read in the next step around both.

    Before: a step of an outer loop walks over a row several times, the first time from memory.
    After:  the second walk has a ``prefetch`` beside each load, of the same place in the next step of the outer loop
            (in its last step, of its own), so that memory is busy while this one is computed with.  That is for
            machines that are told what is read later; where many waves run together they fill each other's gaps.
    """

    name: ClassVar[str] = "fetch-ahead"
    requires = (is_of_lanes,)

    def applies_to(self, machine: Machine) -> bool:
        return machine.globals.prefetch

    def apply(self, kernel: Kernel, machine: Machine) -> Kernel:
        inputs = {memory.name for memory in kernel.memories if memory.role == "input"}

        def change(op: Op) -> tuple[Op, ...]:
            return (_fetching(op, kernel, inputs),) if not op.operands else (op,)

        return replace(kernel, body=rewrite(kernel.body, change, FOR))


def _fetching(outer: Op, kernel: Kernel, inputs: set[str]) -> Op:
    """The loop with prefetches in the second of its inner loops that load the same."""
    row = kernel.symbol(outer["induction"])
    following = {outer["induction"]: minimum(row + outer["step"], outer["upper"] - 1)}
    seen: set[_Place] = set()
    fetched: set[_Place] = set()
    ops: list[Op] = []
    for op in outer.body.ops:
        places = _places(op, inputs, outer["induction"]) if op.is_(FOR) else set[_Place]()
        again = (places & seen) - fetched
        seen |= places
        fetched |= again
        ops.append(_with_hints(op, again, following) if again else op)
    return replace(outer, region=replace(outer.body, ops=tuple(ops))) if fetched else outer


def _places(loop: Op, inputs: set[str], row: str) -> set[_Place]:
    """What the body of a loop loads of the row, without bound checks."""
    loads = (op for op in loop.body.ops if op.is_(LOAD) and op["memory"] in inputs)
    whole = (op for op in loads if not op["mask"] and op["valid"] is None)
    return {(op["memory"], op["offset"]) for op in whole if row in op["offset"].symbols}


def _with_hints(loop: Op, places: set[_Place], following: Mapping[str, Expr]) -> Op:
    ops: list[Op] = []
    for op in loop.body.ops:
        ops.append(op)
        if op.is_(LOAD) and (op["memory"], op["offset"]) in places:
            place = {"memory": op["memory"], "offset": op["offset"].substitute(following)}
            ops.append(Op("prefetch", attributes=attribute_pairs(place), span=op.span, node=op.node))
    return replace(loop, region=replace(loop.body, ops=tuple(ops)))
