"""Tile kernel in, tile kernel out: what a step of a loop adds up, it adds to the rest at its end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar

from wavespec.ir.kernel import Kernel, Op, Value, attribute_pairs, rewrite
from wavespec.ir.tile_ops import ELEMENTWISE, ITERATE, MMA
from wavespec.lower.base import Pass, fresh_names
from wavespec.lower.tile_properties import products_have_three_operands, sums_start_apart
from wavespec.targets.machine import Machine


class SumApart(Pass):
    """Start the sums of a product at zero where they would start from a computed value.

    Before: inside a loop an mma may add to whatever is computed there, such as sums that were scaled.
    After:  on machines that run waves one after another, where carried sums are in memory between steps anyway, that
            mma starts at zero, and an addition follows it.  A chain of roundings is then as long as a step, or
            as the loop has steps, not their product.
    """

    name: ClassVar[str] = "sum-apart"
    requires = (products_have_three_operands,)
    ensures = (sums_start_apart,)

    def applies_to(self, machine: Machine) -> bool:
        return not machine.concurrent_waves

    def apply(self, kernel: Kernel, machine: Machine) -> Kernel:
        fresh = fresh_names(kernel)

        def change(op: Op) -> tuple[Op, ...]:
            computed = {inner.result.name for inner in op.body.ops if inner.is_(ELEMENTWISE)}
            ops = (part for inner in op.body.ops for part in _apart(inner, computed, fresh))
            return (replace(op, region=replace(op.body, ops=tuple(ops))),)

        return replace(kernel, body=rewrite(kernel.body, change, ITERATE))


def _apart(op: Op, computed: set[str], fresh: Callable[[str], str]) -> tuple[Op, ...]:
    if not op.is_(MMA) or op.operands[2].name not in computed:
        return (op,)
    start, kind = op.operands[2], op.operands[2].type
    zero, part = (Value(fresh(start.name), kind) for _ in range(2))
    nothing = attribute_pairs({"value": 0.0 if kind.dtype.is_float else 0})
    return (
        Op("register", (), (zero,), nothing, None, op.span, op.node),
        replace(op, operands=(*op.operands[:2], zero), results=(part,)),
        Op("elementwise", (start, part), op.results, attribute_pairs({"function": "add"}), None, op.span, op.node),
    )
