"""The operations of a step of a consumer go in; out come the same, for waves that issue their products in turn.

A wave waits for its turn in front of the first products of a step, and gives it to the next one behind them, or behind
the product of the step before that runs beside them; the last wave gives it to the first one, for its next step.  So
one wave computes with its sums while another multiplies, whatever came before.
"""

from __future__ import annotations

from collections.abc import Sequence

from wavespec.ir.expr import Expr, const
from wavespec.ir.kernel import Kernel, Memory, Op
from wavespec.ir.thread_ops import MMA_COMMIT, MMA_FENCE
from wavespec.schedule.buffer_ring import BufferRing, in_first_lane, make, signal


def turn_signals(kernel: Kernel, ring: BufferRing) -> Memory:
    """A signal for each wave and each buffer of the ring, whose rounds are those of the turns too."""
    return signal(ring.turn, kernel.wave_count * ring.stages, 1)


def first_turn(kernel: Kernel, ring: BufferRing) -> Op:
    """What comes in front of everything: the last wave gives the first one its first turn."""
    last = ((const(kernel.wave_count - 2), kernel.wave_number),)
    return in_first_lane(kernel, _give(ring, const(0)), mask=last)


def issued_in_turn(kernel: Kernel, ring: BufferRing, ops: Sequence[Op]) -> list[Op]:
    """A step whose first products are issued in turn."""
    fence = next(number for number, op in enumerate(ops) if op.is_(MMA_FENCE))
    commit = next(number for number, op in enumerate(ops) if op.is_(MMA_COMMIT))
    wave, count, index = kernel.wave_number, kernel.wave_count, ring.index(ring.step)
    wait = make("signal_wait", signal=ring.turn, index=wave * ring.stages + index, phase=ring.round(ring.step))
    then = (wave + 1) % count * ring.stages + (index + (wave + 1) // count) % ring.stages
    give = in_first_lane(kernel, _give(ring, then))
    return [*ops[:fence], wait, *ops[fence : commit + 1], give, *ops[commit + 1 :]]


def _give(ring: BufferRing, index: Expr) -> Op:
    return make("signal_arrive", signal=ring.turn, index=index, bytes=0)
