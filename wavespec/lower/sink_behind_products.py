"""Thread kernel in, thread kernel out: what only those behind a loop of products in tile registers use is made behind
it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar, Final

from wavespec.ir.kernel import Kernel, Op
from wavespec.ir.thread_ops import FILLS, FOR, LOAD, MMA, PURE, WRITES_MEMORY
from wavespec.lower.base import Pass
from wavespec.lower.thread_properties import is_of_lanes
from wavespec.targets.machine import Machine

_CHANGES: Final = WRITES_MEMORY | FILLS


class SinkBehindProducts(Pass):
    """Make behind a loop of products what nothing in it uses.

    Before: what a loop of products in tile registers adds to is loaded and computed with in front of it.
    After:  operations that only make values, and loads from private memory that nothing between writes, stand behind
            the loop where nobody needs them before.  Vectors that would wait for the loop are stored in front of it,
            as it needs their registers, or there are more of them than registers; and tiles are loaded when what was
            stored before has left.
    """

    name: ClassVar[str] = "sink-behind-products"
    requires = (is_of_lanes,)

    def applies_to(self, machine: Machine) -> bool:
        return any(row.in_tile_registers for row in machine.instructions)

    def apply(self, kernel: Kernel, machine: Machine) -> Kernel:
        private = {memory.name for memory in kernel.memories if memory.space == "private"}
        return replace(kernel, body=_Sinking(machine, private).block(kernel.body))


class _Sinking:
    def __init__(self, machine: Machine, private: set[str]) -> None:
        self.machine, self.private = machine, private

    def block(self, ops: Sequence[Op]) -> tuple[Op, ...]:
        done: list[Op] = []
        for op in ops:
            if op.region is not None:
                op = replace(op, region=replace(op.region, ops=self.block(op.region.ops)))
            if op.is_(FOR) and op.results and self._multiplies(op):
                done = self._behind(done, op)
            else:
                done.append(op)
        return tuple(done)

    def _multiplies(self, loop: Op) -> bool:
        rows = [self.machine.instruction(op["instruction"]) for op in loop.body.ops if op.is_(MMA)]
        return any(row is not None and row.in_tile_registers for row in rows)

    def _behind(self, before: Sequence[Op], loop: Op) -> list[Op]:
        """What stays in front of the loop, the loop, and what goes behind it."""
        needed, written = set[str](), set[str]()
        kept, sunk = list[Op](), list[Op]()
        for op in reversed([*before, loop]):
            is_free = op.is_(PURE) or (op.is_(LOAD) and op["memory"] in self.private - written)
            if is_free and op is not loop and needed.isdisjoint(value.name for value in op.results):
                sunk.append(op)
                continue
            for inner in op.walk():
                needed |= {value.name for value in inner.operands}
                needed |= {value.name for value in inner.region.yields} if inner.region else set()
                written |= {inner["memory"]} if inner.is_(_CHANGES) else set()
            kept.append(op)
        return [*reversed(kept), *reversed(sunk)]
