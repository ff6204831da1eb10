"""Thread kernel in, thread kernel out: loops that carry sums which never meet become one loop for each of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import ClassVar

from wavespec.ir.kernel import Kernel, Op, Region, Value, rewrite
from wavespec.ir.thread_ops import FOR, LOAD, LOAD_TILE, MMA, PURE
from wavespec.lower.base import Pass, fresh_names
from wavespec.lower.thread_properties import is_of_lanes
from wavespec.targets.machine import Machine

_REPEATABLE = PURE | LOAD | LOAD_TILE | MMA


class SplitChains(Pass):
    """Sum up one fragment after the other where a fragment fills the registers.

    Before: a loop over the steps of a product carries all fragments of a wave's tile.
    After:  on machines whose fragments are as large as the register file, one loop for each fragment, with the loads
            that it needs.  Loops that do anything but load and compute, or multiply nothing, stay as they
            are.
    """

    name: ClassVar[str] = "split-chains"
    requires = (is_of_lanes,)

    def applies_to(self, machine: Machine) -> bool:
        return machine.register_tile == "instruction"

    def apply(self, kernel: Kernel, machine: Machine) -> Kernel:
        fresh = fresh_names(kernel)

        def change(op: Op) -> tuple[Op, ...]:
            if len(op.operands) < 2 or any(not o.is_(_REPEATABLE) for o in op.body.ops):
                return (op,)
            if not any(inner.is_(MMA) for inner in op.body.ops):
                return (op,)
            needed = [_needed(op.body, value) for value in op.body.yields]
            for number, argument in enumerate(op.body.arguments):
                others = (names for other, names in enumerate(needed) if other != number)
                if any(argument.name in names for names in others):
                    return (op,)
            return tuple(_chain(op, number, names, fresh) for number, names in enumerate(needed))

        return replace(kernel, body=rewrite(kernel.body, change, FOR))


def _needed(body: Region, value: Value) -> frozenset[str]:
    """Names of all values that one is made of, itself included."""
    made: Mapping[str, Op] = {result.name: op for op in body.ops for result in op.results}
    found, waiting = dict[str, None](), [value.name]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found[name] = None
            waiting += [operand.name for operand in made[name].operands] if name in made else []
    return frozenset(found)


def _chain(loop: Op, number: int, needed: frozenset[str], fresh: Callable[[str], str]) -> Op:
    """The loop with one of its carried values, and what that needs; values get names of their own."""
    names: dict[str, Value] = {}
    ops: list[Op] = []
    for op in loop.body.ops:
        if any(result.name in needed for result in op.results):
            results = tuple([Value(fresh(result.name), result.type) for result in op.results])
            operands = tuple(names.get(value.name, value) for value in op.operands)
            names |= {old.name: new for old, new in zip(op.results, results, strict=True)}
            ops.append(replace(op, operands=operands, results=results))
    last = loop.body.yields[number]
    region = Region((loop.body.arguments[number],), tuple(ops), (names.get(last.name, last),))
    return replace(loop, operands=(loop.operands[number],), results=(loop.results[number],), region=region)
