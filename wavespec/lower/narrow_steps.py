"""Tile kernel in, tile kernel out: steps of loops that join scores are as wide as the tile registers of these."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from wavespec.ir.kernel import Kernel, Op
from wavespec.ir.tile_ops import ITERATE, MMA, REDUCE
from wavespec.lower.base import Pass
from wavespec.lower.choose_instructions import instruction_of
from wavespec.lower.tile_properties import products_have_instructions
from wavespec.targets.machine import Machine


class NarrowSteps(Pass):
    """Make the steps of a loop that joins scores as wide as the instruction that multiplies them.

    Before: a loop has the tile that its spec says, several instructions wide.
    After:  where sums of products have registers of their own, a loop that joins along its dim what a product in it has
            side by side, in whole numbers of an instruction, has steps of one.  Scores are computed with where these
            registers leave them, without a copy for each instruction, and what a step reads fits the nearest cache.
    """

    name: ClassVar[str] = "narrow-steps"
    requires = (products_have_instructions,)

    def applies_to(self, machine: Machine) -> bool:
        return any(row.in_tile_registers for row in machine.instructions)

    def apply(self, kernel: Kernel, machine: Machine) -> Kernel:
        plan = kernel.distribution
        widths = dict(width for op in kernel.body if op.is_(ITERATE) for width in _widths(op, machine).items())
        loops = tuple(
            replace(split, tile=width) if (width := widths.get(split.dim)) and split.tile % width == 0 else split
            for split in plan.loops
        )
        return kernel if loops == plan.loops else replace(kernel, distribution=replace(plan, loops=loops))


def _widths(loop: Op, machine: Machine) -> dict[str, int]:
    """The width of the instruction that multiplies what a loop joins, by the dim of both."""
    dim = loop["dim"]
    rows = {instruction_of(op, machine) for op in loop.body.ops if op.is_(MMA) and op["n"] == dim}
    joins = any(op.is_(REDUCE) and op["dim"] == dim for op in loop.body.ops)
    row = next(iter(rows), None)
    if not joins or row is None or len(rows) > 1 or not row.in_tile_registers:
        return {}
    return {dim: row.n}
