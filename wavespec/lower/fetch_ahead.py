"""Thread kernel in, thread kernel out: while a row or a tile is computed with, the next one, and the place of the result,
are on their way to the cache."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

from wavespec.ir.expr import Expr, minimum
from wavespec.ir.kernel import Kernel, Op, attribute_pairs, rewrite
from wavespec.ir.thread_ops import BIND, FOR, LOAD, MMA, STORE
from wavespec.lower.base import Pass
from wavespec.lower.thread_properties import is_of_lanes
from wavespec.targets.machine import Machine

_Place = tuple[str, Expr]


class FetchAhead(Pass):
    """Announce, where a loop reads again what one before it read, what that will read in the next step around both; and
    in front of a loop of products where their sums go.

    Before: a step of an outer loop walks over a row several times, the first time from memory.
    After:  the second walk has a ``prefetch`` beside each load, of the same place in the next step of the outer loop
            (in its last step, of its own), so that memory is busy while this one is computed with.  That is for
            machines that are told what is read later; where many waves run together they fill each other's gaps.
    Before: a loop adds up products, and what becomes of them is stored behind it, into lines that no cache has.
    After:  a ``prefetch`` of each such line stands in front of the loop: stores wait for each other, and what is put
            down between two loops waits for them.
    """

    name: ClassVar[str] = "fetch-ahead"
    requires = (is_of_lanes,)

    def applies_to(self, machine: Machine) -> bool:
        return machine.globals.prefetch

    def apply(self, kernel: Kernel, machine: Machine) -> Kernel:
        inputs = {memory.name for memory in kernel.memories if memory.role == "input"}

        def change(op: Op) -> tuple[Op, ...]:
            if not op.is_(FOR) or op.operands:
                return (op,)
            op = _fetching(op, kernel, inputs)
            return (replace(op, region=replace(op.body, ops=_announcing(op.body.ops, kernel, machine))),)

        return replace(kernel, body=rewrite(kernel.body, change))


def _announcing(ops: tuple[Op, ...], kernel: Kernel, machine: Machine) -> tuple[Op, ...]:
    """A step of a loop with the lines that it stores behind products announced in front of those."""
    start = next((at for at, op in enumerate(ops) if op.is_(FOR) and any(map(_multiplies, op.body.ops))), None)
    if start is None:
        return ops
    outputs = {memory.name: memory for memory in kernel.memories if memory.role == "output"}
    known_late = {op["symbol"] for op in ops[start:] if op.is_(BIND)}
    places: dict[_Place, Op] = {}
    for op in ops[start:]:
        if op.is_(STORE) and op["memory"] in outputs and known_late.isdisjoint(op["offset"].symbols):
            line = machine.globals.access_bytes // outputs[op["memory"]].dtype.bytes
            for behind in range(0, op.operands[0].vector.elements, line):
                places[op["memory"], op["offset"] + behind] = op
    return (*ops[:start], *(_hint(memory, offset, op) for (memory, offset), op in places.items()), *ops[start:])


def _multiplies(op: Op) -> bool:
    return op.is_(MMA)


def _hint(memory: str, offset: Expr, of: Op) -> Op:
    place = {"memory": memory, "offset": offset}
    return Op("prefetch", attributes=attribute_pairs(place), span=of.span, node=of.node)


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
            ops.append(_hint(op["memory"], op["offset"].substitute(following), op))
    return replace(loop, region=replace(loop.body, ops=tuple(ops)))
