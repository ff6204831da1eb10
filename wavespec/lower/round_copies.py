"""Thread kernel in, thread kernel out: boxes of numbers that a matrix unit cuts off are rounded on the way."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from wavespec.ir.kernel import Kernel, Op, rewrite
from wavespec.ir.thread_ops import BULK_COPY, MMA_ASYNC
from wavespec.lower.base import Pass
from wavespec.lower.thread_properties import is_of_lanes
from wavespec.targets.machine import Machine


class RoundCopies(Pass):
    """Round what boxes copy to the bits that are used of it, where the machine's copies can.

    Before: a `bulk_copy` leaves numbers as they are, and the matrix unit cuts off the bits that it does not take.
    After:  `kept_bits` on copies to memories that nothing but such products reads: the nearest number errs half as
            much, and as often upwards as downwards.
    """

    name: ClassVar[str] = "round-copies"
    requires = (is_of_lanes,)

    def applies_to(self, machine: Machine) -> bool:
        return bool(machine.globals.rounded_boxes)

    def apply(self, kernel: Kernel, machine: Machine) -> Kernel:
        kept: dict[str, set[int]] = {}
        for op in kernel.walk():
            if op.is_(MMA_ASYNC):
                for memory, bits in _taken(op, machine):
                    kept.setdefault(memory, set()).add(bits)
            elif not op.is_(BULK_COPY) and op.get("memory"):
                kept.setdefault(op["memory"], set()).add(0)

        def change(op: Op) -> tuple[Op, ...]:
            bits = kept.get(op["memory"], set())
            is_rounded = len(bits) == 1 and bits <= set(machine.globals.rounded_boxes)
            return (op.with_(kept_bits=min(bits)),) if is_rounded else (op,)

        return replace(kernel, body=rewrite(kernel.body, change, BULK_COPY))


def _taken(product: Op, machine: Machine) -> list[tuple[str, int]]:
    """The memories that a product reads, with the bits that its unit takes of each element; 0 = all."""
    name, _, swapped = product["instruction"].partition(":")
    row = machine.instruction(name)
    assert row is not None
    left, right = (row.b, row.a) if swapped else (row.a, row.b)
    read = (product.get("a_memory"), left), (product.get("b_memory"), right)
    return [(memory, part.kept_bits) for memory, part in read if memory]
