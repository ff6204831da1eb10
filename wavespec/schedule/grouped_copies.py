"""The body of a loop with asynchronous copies in; a plan that says what is issued in turn with what, out."""

from __future__ import annotations

from wavespec.ir.kernel import Kernel, Op
from wavespec.schedule.loop_plan import LoopPlan, fences
from wavespec.schedule.slices import in_groups
from wavespec.schedule.step_of_copies import step_of_copies

_MOST_UNROLLED = 128
"""Products of a step that is written out for every buffer: what that saves is little beside more of them."""


def grouped_copies_plan(kernel: Kernel, loop: Op, stages: int) -> LoopPlan:
    """Copies ``stages - 1`` steps ahead, issued under the first products, on machines whose compiler takes groups.

    One round: ``wait``, what the places of copies are made of, then the slices with the copies under the first
    products (`in_groups`).  Copies have all other products of their round, and those of the rounds up to their use, to
    land; the barrier behind the wait is the only one.

    A round is written out for each of two buffers, so that their places are numbers and not arithmetic.
    """
    step = step_of_copies(kernel, loop, stages)
    if not step.slices:
        return step.in_turn()
    order, between = in_groups(loop.body.ops, step.slices, step.copies, "copy", [step.commit])
    first = [step.wait, *step.places]
    between = [*fences([0]), *((place + len(first), op) for place, op in between)]
    products = sum(len(part.mmas) for part in step.slices)
    unroll = stages if stages == 2 and products <= _MOST_UNROLLED else 1
    return LoopPlan(tuple(step.stage), (*first, *order), step.buffers, tuple(between), unroll=unroll)
