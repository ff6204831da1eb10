"""Tile kernel in, tile kernel out: products sum in the order in which lanes have what was computed for them."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import ClassVar

from wavespec.ir.kernel import Kernel, Op, rewrite
from wavespec.ir.tile_ops import MMA
from wavespec.lower.base import Pass
from wavespec.lower.choose_instructions import instruction_of
from wavespec.lower.decoded_operands import unpacked_operands
from wavespec.lower.product_layouts import product_layouts
from wavespec.lower.stage_operands import followed, is_in_place
from wavespec.lower.tile_properties import products_have_instructions, tiles_have_extents
from wavespec.targets.machine import Machine


class MatchOperands(Pass):
    """Let products take computed operands in the order along k in which lanes have them, or read them best.

    Before: lanes have as many elements of both operands in a row along k as the widest access to shared memory moves.
    After:  an mma of which one operand follows the sums of another product has ``run`` where that is what makes lanes
            have each element that they multiply: as many as the sums have in a row.
            So has one of which each lane converts an operand itself, of elements that share bytes in a tensor: as many
            as the widest access moves.
    """

    name: ClassVar[str] = "match-operands"
    requires = (products_have_instructions, tiles_have_extents)

    def applies_to(self, machine: Machine) -> bool:
        return machine.concurrent_waves

    def apply(self, kernel: Kernel, machine: Machine) -> Kernel:
        unpacked = unpacked_operands(kernel, machine)

        def lengthen(op: Op) -> tuple[Op, ...]:
            runs = [unpacked[value.name] for value in op.operands[:2] if value.name in unpacked]
            return (op.with_(run=min(runs)) if runs else op,)

        kernel = replace(kernel, body=rewrite(kernel.body, lengthen, MMA)) if unpacked else kernel
        # A matrix load hands out rows as instructions want them.
        return kernel if machine.shared.matrix_load else self._matched(kernel, machine)

    def _matched(self, kernel: Kernel, machine: Machine) -> Kernel:
        makers = {value.name: op for op in kernel.walk() if op.region is None for value in op.results}
        uses = Counter(value.name for op in kernel.walk() for value in op.operands)

        def change(op: Op) -> tuple[Op, ...]:
            row = instruction_of(op, machine)
            if op.get("run"):
                return (op,)
            own = row.a.layout.run_length("k")
            for number, value in enumerate(op.operands[:2]):
                sources = followed(value, makers)
                # What several products read, all of them have to want in one order.
                if not sources or uses[op.operands[1 - number].name] > 1 or own != row.b.layout.run_length("k"):
                    continue
                run = product_layouts(kernel, sources[0], machine)[2].run_length(op["k"])
                if (own % run and run % own) or is_in_place(kernel, op, number, makers, machine):
                    continue
                matched = op.with_(run=run)
                if is_in_place(kernel, matched, number, makers, machine):
                    return (matched,)
            return (op,)

        return replace(kernel, body=rewrite(kernel.body, change, MMA))
