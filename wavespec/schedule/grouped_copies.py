"""The body of a loop with asynchronous copies in; a plan that says what is issued in turn with what, out."""

from __future__ import annotations

from wavespec.ir.kernel import Kernel, Op
from wavespec.ir.thread_ops import ASYNC_COMMIT, ASYNC_WAIT, COPY_ASYNC
from wavespec.schedule.dependences import staged_memories
from wavespec.schedule.feeding import feeding
from wavespec.schedule.loop_plan import LoopPlan, fences
from wavespec.schedule.slices import in_groups, slices_of

_MOST_UNROLLED = 128
"""Products of a step that is written out for every buffer: what that saves is little beside more of them."""


def grouped_copies_plan(kernel: Kernel, loop: Op, stages: int) -> LoopPlan:
    """Copies ``stages - 1`` steps ahead, issued under the first products, on machines whose compiler takes groups.

    One round: ``wait``, what the places of copies are made of, then the slices with the copies under the first
    products (`in_groups`).  Copies have all other products of their round, and those of the rounds up to their use, to
    land; the barrier behind the wait is the only one.

    A round is written out for each of two buffers, so that their places are numbers and not arithmetic.
    """
    ops, last = loop.body.ops, stages - 1
    copies = [number for number, op in enumerate(ops) if op.is_(COPY_ASYNC)]
    commit, wait = (
        next(number for number, op in enumerate(ops) if op.is_(which)) for which in (ASYNC_COMMIT, ASYNC_WAIT)
    )
    places = feeding(ops, copies)
    rest = [number for number in range(len(ops)) if number not in (*places, *copies, commit, wait)]
    stage = [last] * len(ops)
    for number in (*places, *copies, commit):
        stage[number] = 0
    buffers = dict.fromkeys(staged_memories(kernel, ops), stages)
    slices = slices_of(ops, rest)
    if not slices:
        return LoopPlan(tuple(stage), (wait, *places, *copies, commit, *rest), buffers)
    order, between = in_groups(ops, slices, copies, "copy", [commit])
    first = [wait, *places]
    between = [*fences([0]), *((place + len(first), op) for place, op in between)]
    products = sum(len(part.mmas) for part in slices)
    unroll = stages if stages == 2 and products <= _MOST_UNROLLED else 1
    return LoopPlan(tuple(stage), (*first, *order), buffers, tuple(between), unroll=unroll)
