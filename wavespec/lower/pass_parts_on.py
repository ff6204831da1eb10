"""Tile kernel in, tile kernel out: parts that a loop in a loop has found go on to the next step around it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar

from wavespec.ir.kernel import Kernel, Op, Value, rewrite
from wavespec.ir.rewriting import uses_in
from wavespec.ir.tile_ops import ITERATE, REGISTER
from wavespec.lower.base import Pass, fresh_names
from wavespec.lower.defer_reductions import reduction_carried
from wavespec.lower.tile_properties import parts_are_joined
from wavespec.ops.reduce import identity
from wavespec.targets.machine import Machine


class PassPartsOn(Pass):
    """Carry through a loop what one in it has left to its end.

    Before: behind a loop in a loop a ``reduce`` joins what each register has found, onto what the outer one carries.
    After:  where nothing else uses either, the outer loop carries the parts, from which the inner one goes on, and the
            ``reduce`` is behind both: lanes and waves meet once, not once for each step.  No register is added: lanes
            had the parts while the inner loop ran.
    """

    name: ClassVar[str] = "pass-parts-on"
    requires = (parts_are_joined,)

    def applies_to(self, machine: Machine) -> bool:
        return machine.concurrent_waves

    def apply(self, kernel: Kernel, machine: Machine) -> Kernel:
        del machine
        fresh = fresh_names(kernel)

        def change(op: Op) -> tuple[Op, ...]:
            starts, ends = list[Op](), list[Op]()
            for number in range(len(op.operands)):
                op = _passed_on(op, number, fresh, starts, ends)
            return (*starts, op, *ends)

        return replace(kernel, body=rewrite(kernel.body, change, ITERATE))


def _passed_on(loop: Op, number: int, fresh: Callable[[str], str], starts: list[Op], ends: list[Op]) -> Op:
    """The loop with parts in place of the carried value of that number; what comes before and behind it is appended."""
    made, body = reduction_carried(loop, number), loop.body
    inner = None if made is None or made["divided"] else _made_by(body.ops, made.operands[0])
    if made is None or inner is None or not inner.is_(ITERATE) or uses_in(loop.body, made.operands[0]) != 1:
        return loop
    if made.operands[0].tile.extent(made["dim"]) == 1:  # nobody meets
        return loop
    place = inner.results.index(made.operands[0])
    start = _made_by(body.ops, inner.operands[place])
    if (
        start is None
        or not start.is_(REGISTER)
        or start["value"] != identity(made["function"], start.result.tile.dtype)
    ):
        return loop
    first, argument, found = (Value(fresh(made.result.name), start.result.type) for _ in range(3))
    starts.append(replace(start, results=(first,)))
    ends.append(replace(made, operands=(found, loop.operands[number]), results=(loop.results[number],)))

    def put(values: tuple[Value, ...], at: int, value: Value) -> tuple[Value, ...]:
        return (*values[:at], value, *values[at + 1 :])

    goes_on = replace(inner, operands=put(inner.operands, place, argument))
    ops = [goes_on if op is inner else op for op in body.ops if op is not made]
    if uses_in(body, start.result) == 1:
        ops.remove(start)
    region = replace(
        body,
        arguments=put(body.arguments, number, argument),
        ops=tuple(ops),
        yields=put(body.yields, number, made.operands[0]),
    )
    operands, results = put(loop.operands, number, first), put(loop.results, number, found)
    return replace(loop, operands=operands, results=results, region=region)


def _made_by(ops: tuple[Op, ...], value: Value) -> Op | None:
    return next((op for op in ops if value in op.results), None)
