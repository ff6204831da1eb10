"""The body of a loop in; a plan by rule, in which loads of later steps are under way while this step computes, out."""

from __future__ import annotations

from collections.abc import Sequence

from wavespec.ir.kernel import Kernel, Op, Value
from wavespec.ir.thread_ops import COPY_ASYNC, STORE
from wavespec.schedule.costs import kind_of
from wavespec.schedule.dependences import staged_memories, stores_ahead
from wavespec.schedule.feeding import feeding
from wavespec.schedule.grouped_copies import grouped_copies_plan
from wavespec.schedule.loop_plan import LoopPlan, fences
from wavespec.schedule.slices import Slice, in_groups, slices_of
from wavespec.schedule.step_of_copies import step_of_copies
from wavespec.targets.machine import Machine

_OTHER_REGISTERS = 32  # for offsets, bounds and the like, besides fragments, results and a 64-bit address for each copy


def prefetch_plan(kernel: Kernel, loop: Op, stages: int, machine: Machine) -> LoopPlan:
    """Copies or loads ``stages - 1`` steps ahead."""
    if not any(op.is_(COPY_ASYNC) for op in loop.body.ops):
        return _through_registers(kernel, loop, stages, grouped=machine.schedule_groups)
    if machine.schedule_groups:
        return grouped_copies_plan(kernel, loop, stages)
    return _of_copies(kernel, loop, stages, machine.registers_of(kernel.threads))


def program_plan(kernel: Kernel, loop: Op) -> LoopPlan:
    """Every step by itself, in the order of the program; all loads are under way before the first store waits."""
    ops = loop.body.ops
    staged = staged_memories(kernel, ops)
    stores = [n for n, op in enumerate(ops) if op.is_(STORE) and op["memory"] in staged]
    return LoopPlan((0,) * len(ops), tuple(range(len(ops))), dict.fromkeys(staged, 1), fences(stores[:1]))


def _of_copies(kernel: Kernel, loop: Op, stages: int, registers: int) -> LoopPlan:
    """Asynchronous copies: they are issued between the mmas of a step, behind the loads that their places are made of,
    and fragments are loaded ahead of their mmas.

    ``[loads of slice k+1; some copies; mmas of slice k] ...; commit; wait; loads of slice 0 of the next step; mmas of
    the last slice``: mmas run while others wait at the barrier.  Where registers do not suffice: ``wait; copies;
    commit; loads and mmas of every slice in turn``.
    """
    step = step_of_copies(kernel, loop, stages)
    slices, copies, stage = step.slices, step.copies, list(step.stage)
    if not slices or (registers and _registers(loop, slices, len(copies)) > registers):
        return step.in_turn()
    for number in (step.wait, *slices[0].loads):
        stage[number] = stages - 2
    order: list[int] = [*step.places]
    slots = max(1, len(slices) - 1)
    for at, part in enumerate(slices):
        share = copies[at * len(copies) // slots : (at + 1) * len(copies) // slots] if at < slots else []
        if at + 1 < len(slices):
            order += [*slices[at + 1].loads, *share, *part.mmas]
        else:
            order += [*share, step.commit, step.wait, *slices[0].loads, *part.mmas]
    return LoopPlan(tuple(stage), tuple(order), step.buffers)


def _through_registers(kernel: Kernel, loop: Op, stages: int, *, grouped: bool) -> LoopPlan:
    """Loads go to registers first: loads ``stages - 1`` steps ahead, with what their places are made of, stores one,
    behind the last fragment's load.

    One round: ``loads of the next step; fragments; [fence; mmas] of every slice; stores of the next step``; or, where
    the compiler takes groups and there is a product for each load, loads under the first products (`in_groups`).
    """
    ops, last = loop.body.ops, stages - 1
    staged = staged_memories(kernel, ops)
    kinds = [kind_of(kernel, op) for op in ops]
    stores = stores_ahead(kernel, ops)
    made = feeding(ops, stores)
    loads = [n for n in made if kinds[n] == "global_load"]
    places = feeding(ops, loads)
    loads = sorted({*loads, *places})
    between = [n for n in made if n not in loads]  # conversions on the way
    rest = [n for n in range(len(ops)) if n not in (*made, *stores)]
    ahead = max(0, last - 1)
    stage = [last] * len(ops)
    for number in (*between, *stores):
        stage[number] = ahead
    for number in loads:
        stage[number] = 0
    slices = slices_of(ops, rest)
    # Narrow loads, which are many and masked, gain nothing from being kept apart.
    if grouped and slices and not places and len(loads) <= len(slices[0].mmas):
        order, added = in_groups(ops, slices, loads, "global_load")
        fence = fences([len(order)])
        order = (*order, *between, *stores)
        return LoopPlan(tuple(stage), order, dict.fromkeys(staged, 1), (*added, *fence))
    order, fenced = [*loads], list[int]()
    for at, part in enumerate(slices):
        order += part.loads if at == 0 else []
        fenced += [len(order)] if at else []
        order += slices[at + 1].loads if at + 1 < len(slices) else []
        fenced.append(len(order))
        order += part.mmas
    order += [] if slices else rest
    fenced.append(len(order))
    order += [*between, *stores]
    return LoopPlan(tuple(stage), tuple(order), dict.fromkeys(staged, 1), fences(fenced))


def _registers(loop: Op, slices: Sequence[Slice], copies: int) -> int:
    """About how many registers a lane needs to load one slice while it multiplies another."""
    ops, fragments = loop.body.ops, 0
    for part in slices:
        used = {value.name for number in part.mmas for value in ops[number].operands}
        made = [value for number in part.loads for value in ops[number].results if value.name in used]
        fragments = max(fragments, sum(map(words, made)))
    return sum(map(words, loop.operands)) + 2 * fragments + 2 * copies + _OTHER_REGISTERS


def words(value: Value) -> int:
    """32-bit registers of a value."""
    return -(-value.vector.elements * value.vector.dtype.bytes // 4)
