"""Tile kernel in, tile kernel out: a loop that has at most one step is no loop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import ClassVar

from wavespec.ir.expr import const
from wavespec.ir.kernel import Kernel, Op, Value
from wavespec.ir.rewriting import renamed, substituted
from wavespec.ir.tile_ops import ITERATE, MMA
from wavespec.lower.base import Pass
from wavespec.lower.tile_properties import loops_have_several_steps, tiles_are_placed
from wavespec.targets.machine import Machine


class InlineSteps(Pass):
    """Replace a loop over a dim whose largest size is at most the tile by its body.

    Before: every ``iterate`` is a loop.
    After:  where one tile covers the dim for every size that the kernel is for, the body stands in place of the loop,
            with the induction as 0, what the loop started from as the carried values, and what they became as its
            results.  Folding nothing into a number leaves the number, so that a dim of size 0 needs no care; steps
            over no dim, of which there may be none, stay, and so do loops that start later or count their tiles:
            workgroups may share them out.  Loops that a schedule names stay, and so do those of matrix products where
            waves run at the same time: other passes overlap their steps.  So do products in a loop that ends after one
            tile of many: other passes ask for its place.
    """

    name: ClassVar[str] = "inline-steps"
    requires = (tiles_are_placed,)
    ensures = (loops_have_several_steps,)

    def apply(self, kernel: Kernel, machine: Machine) -> Kernel:
        scheduled = {schedule.loop for schedule in kernel.distribution.schedules}
        sizes = kernel.all_sizes

        def stays(op: Op) -> bool:
            most = sizes[op["dim"]].high if op["dim"] else 0
            has_place = machine.concurrent_waves or most is None or most > op["step"].value
            is_product = any(inner.is_(MMA) for inner in op.walk())
            return (has_place and is_product) or op.node in scheduled or not _has_one_step(op)

        return replace(kernel, body=_block(kernel.body, {}, stays))


def _block(ops: Sequence[Op], names: dict[str, Value], stays: Callable[[Op], bool]) -> tuple[Op, ...]:
    """The operations without loops of one step; ``names`` says what became of values."""
    result: list[Op] = []
    for op in ops:
        if not op.is_(ITERATE) or stays(op):
            op = renamed(op, names)
            if op.region:
                op = replace(op, region=replace(op.region, ops=_block(op.region.ops, {}, stays)))
            result.append(op)
            continue
        first = [names.get(value.name, value) for value in op.operands]
        names |= {argument.name: value for argument, value in zip(op.body.arguments, first, strict=True)}
        result += _block([substituted(inner, {op["induction"]: const(0)}) for inner in op.body.ops], names, stays)
        last = [names.get(value.name, value) for value in op.body.yields]
        names |= {made.name: value for made, value in zip(op.results, last, strict=True)}
    return tuple(result)


def _has_one_step(op: Op) -> bool:
    if any(op.get(key) is not None for key in ("lower", "stride", "goes_on")):
        return False
    if not op["dim"] and (op["extent"].low or 0) < 1:  # a branch, or steps that are part of what is computed
        return False
    most = op["extent"].high
    return most is not None and most <= op["step"].value
