"""The body of a loop in; a plan in which two halves of the waves take turns at multiplying and at moving data, out."""

from __future__ import annotations

from wavespec.diagnostics import WavespecError, Where
from wavespec.ir.kernel import Kernel, Op
from wavespec.ir.thread_ops import LOAD
from wavespec.schedule.dependences import staged_memories, stores_ahead
from wavespec.schedule.feeding import feeding
from wavespec.schedule.loop_plan import LoopPlan
from wavespec.schedule.slices import slices_of
from wavespec.targets.machine import Machine


class TurnsNotPossible(WavespecError, code="turns-not-possible"):
    def __init__(self, where: Where, why: str) -> None:
        super().__init__(where, f"The waves cannot take turns: {why}.", hints=["Leave out 'order' for this target."])


def ping_pong_plan(kernel: Kernel, loop: Op, machine: Machine) -> LoopPlan:
    """Four phases with a barrier behind each; the first half of the waves is one phase ahead of the other half.

    ``fragments of this step, loads of the next | half of the products | stores of the next step | the other products``:
    while one half of the waves multiplies, with priority, the other one moves data on the same units.

    Raises:
        WavespecError: the machine, the number of waves or the loop is not made for it.
    """
    where, ops = kernel.distribution.roles.span, loop.body.ops
    staged = staged_memories(kernel, ops)
    stores = stores_ahead(kernel, ops)
    made = feeding(ops, stores)
    slices = slices_of(ops, [n for n in range(len(ops)) if n not in (*made, *stores)])
    if not machine.wave_priorities:
        raise TurnsNotPossible(where, f"{machine.variant} has no wave priorities, and no wave only copies")
    if kernel.wave_count % 2:
        raise TurnsNotPossible(where, f"{kernel.wave_count} waves are no two halves")
    if not slices or not stores:
        raise TurnsNotPossible(where, "the loop does more than stage tiles through registers and multiply them")
    fragments = [number for part in slices for number in part.loads]
    products = [number for part in slices for number in part.mmas]
    loads = [number for number in made if ops[number].is_(LOAD)]
    loads = sorted({*loads, *feeding(ops, loads)})
    moved = [number for number in made if number not in loads]
    half = len(products) // 2
    phases = [[*fragments, *loads], products[:half], [*moved, *stores], products[half:]]
    stage = [1] * len(ops)
    for number in (*made, *stores):
        stage[number] = 0
    between: list[tuple[int, Op]] = []
    place = 0
    for number, phase in enumerate(phases):
        multiplies = number % 2 == 1
        between += [(place, op) for op in _entering(multiplies)]
        place += len(phase)
        between += [(place, op) for op in _leaving(multiplies)]
    apart, together = (Op("stagger", attributes=(("ahead", ahead),)) for ahead in (1, 0))
    order = tuple(number for phase in phases for number in phase)
    return LoopPlan(
        tuple(stage), order, dict.fromkeys(staged, 1), tuple(between), ((Op("barrier"), apart), (together,))
    )


def _entering(multiplies: bool) -> tuple[Op, ...]:
    raised = (Op("priority", attributes=(("level", 1),)),) if multiplies else ()
    return (*raised, Op("schedule_fence"))


def _leaving(multiplies: bool) -> tuple[Op, ...]:
    lowered = (Op("priority", attributes=(("level", 0),)),) if multiplies else ()
    return (Op("schedule_fence"), *lowered, Op("barrier"), Op("schedule_fence"))
