"""Thread kernel in, thread kernel out: steps of a loop overlap as the schedule says."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import ClassVar

from wavespec.diagnostics import WavespecError, raise_all
from wavespec.ir.expr import Expr, symbol
from wavespec.ir.kernel import Kernel, Memory, Op, rewrite
from wavespec.ir.rewriting import without_unused
from wavespec.ir.thread_ops import DOT, FOR, LANES_FILL, LET, MMA, MMA_ASYNC, PURE
from wavespec.lower.base import Pass, fresh_names
from wavespec.lower.check_shared import SharedMemoryExceeded
from wavespec.lower.thread_properties import buffers_are_in_range, is_of_lanes
from wavespec.schedule.dependences import staged_memories
from wavespec.schedule.errors import (
    MOST_PRODUCTS,
    NotInnermost,
    PlannedByRoles,
    ScheduleTakesRegisters,
    ScheduleTooLong,
    StagesNotPossible,
    StepsBeyondEnd,
    UnknownLoop,
)
from wavespec.schedule.explicit import explicit_plan
from wavespec.schedule.loop_plan import LoopPlan
from wavespec.schedule.modulo_plan import modulo_plan
from wavespec.schedule.ping_pong import ping_pong_plan
from wavespec.schedule.prefetch import prefetch_plan, program_plan, words
from wavespec.schedule.registers_ahead import RegistersAhead, loads_of_its_own, steps_ahead
from wavespec.schedule.software_pipeline import SoftwarePipeline
from wavespec.schema.checking.check_schedules import UselessSetting
from wavespec.targets.machine import Machine


class PipelineLoops(Pass):
    """Overlap the steps of loops as `LoopPlan`s say: by explicit nodes, by the rule of prefetching, or by modulo
    scheduling.

    Before: loop bodies in program order, staged tiles in buffer 0.
    After:  rounds in which every operation works for the step of its stage; staged memories have the buffers that
            the plan needs, each step uses its own.  See `SoftwarePipeline`.
    Errors: ``stages-not-possible``, ``unknown-loop``, ``unknown-node``, ``repeated-node``, ``broken-dependence``,
            ``no-modulo-schedule``, ``turns-not-possible``, ``steps-beyond-end``, ``not-innermost``,
            ``schedule-too-long``, ``schedule-takes-registers``, ``planned-by-roles`` at the line of the schedule;
            ``useless-setting`` there, where it was written for this target alone;
            ``shared-memory-exceeded`` there, or at the tile.
    """

    name: ClassVar[str] = "pipeline-loops"
    requires = (is_of_lanes, buffers_are_in_range)

    def apply(self, kernel: Kernel, machine: Machine) -> Kernel:
        plan = kernel.distribution
        if kernel.producers:  # `SpecializeWaves` has pipelined them
            if plan.schedules or plan.auto:
                raise PlannedByRoles(plan.schedules[0].where() if plan.schedules else plan.stages_span)
            return kernel
        loops = [op.node for op in kernel.walk() if op.is_(FOR) and op.node]
        for schedule in kernel.distribution.schedules:
            if schedule.loop not in loops:
                raise UnknownLoop(schedule.where_key(), schedule.loop, loops)
        fresh, pipelined, notes = fresh_names(kernel), dict[str, LoopPlan](), list[str]()

        def change(op: Op) -> tuple[Op, ...]:
            nonlocal kernel
            if op.node and _has_staged_branch(kernel, op):
                notes.append(f"{op.node}: steps do not overlap, because of the branch in them.")
            if op.get("once") or not staged_memories(kernel, op.body.ops):
                return (op,)
            if op.get("goes_on") is not None and not _is_planned(kernel, op):
                if _overlaps(kernel, op):
                    notes.append(f"{op.node}: steps do not overlap, because each may be the last.")
                return (op,)
            if not _is_innermost(op):
                if _is_planned(kernel, op):
                    raise NotInnermost(kernel.distribution.schedule_of(op.node).where_key(), op.node)
                return (op,)
            plan = _plan(kernel, op, machine)
            if plan is None:
                return (op,)
            adds_steps = plan.unroll > 1 and not kernel.distribution.schedule_of(op.node).unroll
            if adds_steps and not _can_run_beyond_end(kernel, op, plan, fresh):
                plan = replace(plan, unroll=1)
            _check_shared(_buffered(kernel, plan), op.node, machine)
            kernel, op = _widened(_buffered(kernel, plan), op, plan.unroll)
            pipelined[op.node] = plan
            at = kernel.symbol(op["induction"])
            # Steps beyond the end of a strided tensor may be anywhere.
            checked = machine.globals.range_checked and not any(memory.is_strided for memory in kernel.memories)
            pipeline = SoftwarePipeline(op, at, plan, fresh, kernel.symbols, range_checked=checked)
            if pipeline.sums_beyond_end and not pipeline.zeros_change_nothing():
                raise StepsBeyondEnd(kernel.distribution.schedule_of(op.node).where(), op.node)
            ops = without_unused(pipeline.pipelined(), lambda op: op.is_(PURE))  # the first rounds run few stages
            kernel = kernel.with_symbols(*pipeline.symbols.values())
            _check_registers(kernel, ops, op.node, machine)
            _check_length(kernel, ops, op.node)
            return ops

        _check_possible(kernel, machine)
        kernel = _loaded_ahead(kernel, machine, fresh)
        body = rewrite(kernel.body, change, FOR)
        around = {value.name for op in body for value in op.results}  # steps may no longer need what was made there
        body = without_unused(body, lambda op: op.is_(PURE) and all(value.name in around for value in op.results))
        if kernel.distribution.is_for_target:
            raise_all(_unused(kernel, frozenset(pipelined), machine))
        notes += [line for plan in pipelined.values() for line in plan.report]
        return replace(kernel, body=body, notes=(*kernel.notes, *notes))


def _loaded_ahead(kernel: Kernel, machine: Machine, fresh: Callable[[str], str]) -> Kernel:
    """The kernel in which steps load what later ones take, where nothing is staged."""
    symbols, limit = list[Expr](), machine.registers_of(kernel.threads)

    def change(op: Op) -> tuple[Op, ...]:
        loads = loads_of_its_own(kernel, op) if _loads_ahead(kernel, op) else ()
        steps = steps_ahead(op, loads, kernel.distribution.schedule_of(op.node).stages, limit) if loads else 0
        if not steps:
            return (op,)
        at, widest = kernel.symbol(op["induction"]), 8 * machine.globals.access_bytes
        ahead = RegistersAhead(op, at, loads, fresh, distance=steps, widest_bits=widest)
        ops = ahead.ops()
        symbols.extend(ahead.symbols)
        _check_registers(kernel, ops, op.node, machine)
        return ops

    return replace(kernel, body=rewrite(kernel.body, change, FOR)).with_symbols(*symbols)


def _has_staged_branch(kernel: Kernel, loop: Op) -> bool:
    """Whether steps that were meant to overlap stage tiles, or use them, in a branch."""
    branches = (op for op in loop.body.ops if op.get("once"))
    return _overlaps(kernel, loop) and any(
        op.get("memory") and kernel.memory(op["memory"]).space == "shared" for one in branches for op in one.walk()
    )


def _loads_ahead(kernel: Kernel, loop: Op) -> bool:
    """Whether the schedule wants steps to overlap of which nothing is staged, and says no more than that."""
    plan = kernel.distribution.schedule_of(loop.node)
    says_more = plan.auto or plan.nodes or plan.clusters
    return plan.stages > 1 and not says_more and not any(memory.staged for memory in kernel.memories)


def _overlaps(kernel: Kernel, loop: Op) -> bool:
    """Whether the schedule wants steps of the loop to overlap."""
    plan = kernel.distribution.schedule_of(loop.node)
    return bool(plan.stages > 1 or plan.auto)


def _is_planned(kernel: Kernel, loop: Op) -> bool:
    return any(loop.node == schedule.loop for schedule in kernel.distribution.schedules)


def _is_innermost(loop: Op) -> bool:
    made = {value.name for op in loop.body.ops for value in op.results}
    # `let` says which tile a round of the grid is for, and places are made of that.
    plain = all(op.region is None and not op.is_(LET) and not op.get("uniform") for op in loop.body.ops)
    return plain and all(value.name in made for value in loop.body.yields)


def _plan(kernel: Kernel, loop: Op, machine: Machine) -> LoopPlan | None:
    schedule = kernel.distribution.schedule_of(loop.node)
    if schedule.nodes or schedule.clusters:
        plan = explicit_plan(kernel, loop, schedule, machine)
    elif kernel.distribution.roles.order == "ping_pong":
        plan = ping_pong_plan(kernel, loop, machine)
    elif schedule.auto == "modulo":
        plan = modulo_plan(kernel, loop, schedule.buffers or schedule.stages, machine, schedule.where("auto"))
    elif schedule.stages > 1 or schedule.auto:
        plan = prefetch_plan(kernel, loop, max(2, schedule.stages), machine)
    else:
        plan = program_plan(kernel, loop)
        if schedule.unroll <= 1 and (machine.resources is None or not plan.between):
            return None
    return replace(plan, unroll=schedule.unroll or plan.unroll)


def _can_run_beyond_end(kernel: Kernel, loop: Op, plan: LoopPlan, fresh: Callable[[str], str]) -> bool:
    """Whether nobody sees the steps that unrolling adds behind the last one."""
    pipeline = SoftwarePipeline(loop, kernel.symbol(loop["induction"]), plan, fresh)
    return not pipeline.sums_beyond_end or pipeline.zeros_change_nothing()


def _buffered(kernel: Kernel, plan: LoopPlan) -> Kernel:
    """The kernel with as many copies of each staged tile as the plan needs."""

    def of(memory: Memory) -> Memory:
        return replace(memory, buffers=plan.buffers.get(memory.name, memory.buffers))

    return replace(kernel, memories=tuple(map(of, kernel.memories)))


def _widened(kernel: Kernel, loop: Op, unroll: int) -> tuple[Kernel, Op]:
    """The induction of an unrolled loop takes steps that many times as long, unless it is another loop's as well."""
    loops = [op for op in kernel.walk() if op.is_(FOR) and op["induction"] == loop["induction"]]
    induction = kernel.symbol(loop["induction"])
    if induction.is_const or unroll == 1 or not loop["lower"].is_const or loop["lower"].value or len(loops) > 1:
        return kernel, loop
    name, low, high, divisor = induction.args
    longer = symbol(name, low, high, divisor * unroll)
    symbols: tuple[Expr, ...] = tuple(longer if known.args[0] == name else known for known in kernel.symbols)
    return replace(kernel, symbols=symbols), loop


def _unused(kernel: Kernel, pipelined: frozenset[str], machine: Machine) -> Iterator[WavespecError]:
    """What the schedule says of loops that had no use for it."""
    plan = kernel.distribution
    why, hint = "no tensor that the loop reads is staged", "Mark one with 'space: shared', or leave it out here."
    if machine.resources is None:
        why, hint = f"steps do not overlap on {machine.target}", "Leave it out for this target."
    for loop in plan.schedules:
        fields = {
            "stages": loop.stages > 1 and loop.stages != plan.stages,
            "auto": loop.auto and loop.auto != plan.auto,
            "nodes": loop.nodes,
            "clusters": loop.clusters,
            "buffers": loop.buffers,
            "unroll": loop.unroll > 1,
        }
        settings = [name for name, value in fields.items() if value and loop.loop not in pipelined]
        yield from (UselessSetting(loop.where_key(name), name, why, hint) for name in settings)
    planned = {loop.loop for loop in plan.schedules if loop.nodes or loop.clusters}
    if plan.roles.order == "ping_pong" and not pipelined - planned:
        why, hint = "there is no loop in which waves could take turns", "A loop needs staged tensors, and no 'nodes'."
        yield UselessSetting(plan.roles.span, "order", why, hint)


def _check_shared(kernel: Kernel, loop: str, machine: Machine) -> None:
    staged = [memory for memory in kernel.memories if memory.space == "shared"]
    needed = sum(memory.elements.value * memory.dtype.bytes * memory.buffers for memory in staged)
    if needed > machine.shared.bytes:
        tile = kernel.distribution.loops[0].span if kernel.distribution.loops else None
        named = (one.where() for one in kernel.distribution.schedules if one.loop == loop)
        where = next(named, tile)
        raise SharedMemoryExceeded(where, needed, machine, staged)


def _check_registers(kernel: Kernel, ops: tuple[Op, ...], loop: str, machine: Machine) -> None:
    limit = machine.registers_of(kernel.threads)
    rounds = [op for op in ops if op.is_(FOR)]
    needed = max(sum(map(words, op.operands)) for op in rounds)
    if limit and needed > limit:
        plan = kernel.distribution.schedule_of(loop)
        where = plan.where() or rounds[0].span  # there may be no schedule
        overlap = plan.stages > 1 or bool(plan.nodes or plan.auto)
        raise ScheduleTakesRegisters(where, loop, needed, limit, kernel.threads, overlap, machine)


def _check_length(kernel: Kernel, ops: tuple[Op, ...], loop: str) -> None:
    count = sum(inner.is_(MMA) for op in ops for inner in op.walk())
    if count > MOST_PRODUCTS:
        raise ScheduleTooLong(kernel.distribution.schedule_of(loop).where(), loop, count)


def _check_possible(kernel: Kernel, machine: Machine) -> None:
    plan = kernel.distribution
    overlapping = [one for one in plan.schedules if one.stages > 1 or one.auto or one.nodes or one.clusters]
    if plan.stages == 1 and not plan.auto and not overlapping:
        return
    where = plan.stages_span if plan.stages > 1 or not overlapping else overlapping[0].where()
    stages = max(2, plan.stages)
    if machine.resources is None:
        raise StagesNotPossible(where, stages, f"{machine.variant} has none", "Leave out the stages for this target.")
    staged = [memory for memory in kernel.memories if memory.space == "shared"]
    names = {memory.name for memory in staged if memory.staged}
    if any(_loads_ahead(kernel, op) and loads_of_its_own(kernel, op) for op in kernel.walk() if op.is_(FOR)):
        return
    if where is None and not any(op.is_(MMA, MMA_ASYNC, DOT) for op in kernel.walk()):
        return  # a plan asked for it, of steps that take nothing which could be loaded before
    if not staged:
        raise StagesNotPossible(where, stages, "no tensor is staged", "Mark the operands with 'space: shared'.")
    ways = {op.name for op in kernel.walk() if op.is_(LANES_FILL) and op["memory"] in names}
    if len(ways) > 1:
        why = "one tile is copied by itself and another goes through registers"
        raise StagesNotPossible(where, stages, why, "Promise the same of the rows of both tensors, or use one stage.")
