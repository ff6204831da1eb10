"""Tile kernel in, tile kernel out: products have the reads of their operands to themselves."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from wavespec.ir.kernel import Kernel, Op, Region, Value
from wavespec.lower.base import Pass, fresh_names
from wavespec.targets.machine import Machine


class SeparateOperands(Pass):
    """Read again what products and other operations read together.

    Before: a read may be an operand of products and used by other operations.
    After:  the others use a read of their own, right behind that one.  Operands are read as a product wants them:
            staged, step by step, in the layout and as the type of its instruction.
    """

    name: ClassVar[str] = "separate-operands"

    def apply(self, kernel: Kernel, machine: Machine) -> Kernel:
        operands = {value.name for op in kernel.walk() if op.name == "mma" for value in op.operands[:2]}
        shared = {value.name for op in kernel.walk() for value in _of_others(op)} & operands
        reads = {op.result.name: op.result for op in kernel.walk() if op.name == "read" and op.result.name in shared}
        if not reads:
            return kernel
        fresh = fresh_names(kernel)
        again = {name: replace(value, name=fresh(name)) for name, value in reads.items()}
        return replace(kernel, body=_separated(kernel.body, again))


def _of_others(op: Op) -> tuple[Value, ...]:
    """What an operation uses in another way than a product its operands, and what its region yields."""
    yields = op.region.yields if op.region else ()
    return (*(op.operands[2:] if op.name == "mma" else op.operands), *yields)


def _separated(ops: tuple[Op, ...], again: dict[str, Value]) -> tuple[Op, ...]:
    def own(values: tuple[Value, ...]) -> tuple[Value, ...]:
        return tuple(again.get(value.name, value) for value in values)

    result: list[Op] = []
    for op in ops:
        first = 2 if op.name == "mma" else 0
        op = replace(op, operands=(*op.operands[:first], *own(op.operands[first:])))
        if op.region:
            inside = Region(op.region.arguments, _separated(op.region.ops, again), own(op.region.yields))
            op = replace(op, region=inside)
        result.append(op)
        if op.name == "read" and op.result.name in again:
            result.append(replace(op, results=(again[op.result.name],)).with_(direct=True))
    return tuple(result)
