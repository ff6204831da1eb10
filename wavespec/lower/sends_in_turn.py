"""A kernel whose workgroups send each other values goes in; one that does so in every round of a loop comes out."""

from __future__ import annotations

from wavespec.ir.expr import Expr, const
from wavespec.ir.kernel import Kernel, Memory, Op, Region
from wavespec.ir.layout import row_major
from wavespec.ir.nodes import replace
from wavespec.ir.thread_ops import LOAD, SEND, SIGNAL_ARRIVE, SIGNAL_WAIT

_PLACES = 2
"""Of what a workgroup is sent, and signals: one for each of two rounds.  Who sends something in a round has waited for
what all workgroups sent in the round before, which they do behind their last look at the one before that; with one
signal, what a fast workgroup sends could be counted in place of what a slow one of the same round does."""


def sends_in_turn(kernel: Kernel, turn: Expr) -> Kernel:
    """The kernel with places and signals that alternate with the round ``turn``, where workgroups send something."""
    sends = [op for op in kernel.walk() if op.is_(SEND)]
    if not sends:
        return kernel
    received, signals = {op["memory"] for op in sends}, {op["signal"] for op in sends}
    place, phase = turn % _PLACES, turn // _PLACES % 2

    def moved(op: Op) -> Op:
        if op.region:
            return replace(op, region=Region(op.body.arguments, tuple(map(moved, op.body.ops)), op.body.yields))
        changed: dict[str, Expr] = {}
        if op.is_(SEND, LOAD) and op["memory"] in received:
            changed["offset"] = op["offset"] + place * kernel.memory(op["memory"]).elements.value
        if op.is_(SEND, SIGNAL_ARRIVE, SIGNAL_WAIT) and op["signal"] in signals:
            changed["index"] = op["index"] + place * kernel.memory(op["signal"]).buffers
        if op.is_(SIGNAL_WAIT) and op["signal"] in signals:
            changed["phase"] = phase
        return op.with_(**changed) if changed else op

    def widened(memory: Memory) -> Memory:
        if memory.name in signals:
            return replace(memory, buffers=memory.buffers * _PLACES)
        if memory.name not in received:
            return memory
        elements = memory.elements.value * _PLACES
        return replace(memory, shape=(const(elements),), arrangement=row_major(memory.dims, (elements,)))

    body, memories = tuple(map(moved, kernel.body)), tuple(map(widened, kernel.memories))
    return replace(kernel, body=body, memories=memories)
