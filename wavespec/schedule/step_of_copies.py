"""A loop that copies asynchronously in; which operations of its body do, what places are made of, and the rest, out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from wavespec.ir.kernel import Kernel, Op
from wavespec.ir.thread_ops import ASYNC_COMMIT, ASYNC_WAIT, COPY_ASYNC
from wavespec.schedule.dependences import staged_memories
from wavespec.schedule.feeding import feeding
from wavespec.schedule.loop_plan import LoopPlan
from wavespec.schedule.slices import Slice, slices_of


@dataclass(frozen=True, slots=True)
class StepOfCopies:
    """One step, by numbers of its operations, whose copies are ``stages - 1`` steps ahead."""

    copies: list[int]
    commit: int
    wait: int
    places: list[int]
    """What the places of copies are made of."""
    rest: list[int]
    slices: list[Slice]
    """Of the rest; none where it does more than load fragments and multiply them."""
    stage: list[int]
    """Of each operation: 0 for what is ahead."""
    buffers: Mapping[str, int]

    def in_turn(self) -> LoopPlan:
        """Copies right behind the wait, then everything else as it stands."""
        order = (self.wait, *self.places, *self.copies, self.commit, *self.rest)
        return LoopPlan(tuple(self.stage), order, self.buffers)


def step_of_copies(kernel: Kernel, loop: Op, stages: int) -> StepOfCopies:
    """``stages``: buffers of each shared memory."""
    ops = loop.body.ops
    copies = [number for number, op in enumerate(ops) if op.is_(COPY_ASYNC)]
    commit, wait = (
        next(number for number, op in enumerate(ops) if op.is_(which)) for which in (ASYNC_COMMIT, ASYNC_WAIT)
    )
    places = feeding(ops, copies)
    ahead = {*places, *copies, commit}
    rest = [number for number in range(len(ops)) if number not in ahead and number != wait]
    stage = [0 if number in ahead else stages - 1 for number in range(len(ops))]
    buffers = dict.fromkeys(staged_memories(kernel, ops), stages)
    return StepOfCopies(copies, commit, wait, places, rest, slices_of(ops, rest), stage, buffers)
