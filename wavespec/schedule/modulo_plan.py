"""A loop in; its plan by modulo scheduling, with the interval, its bound and what stood in the way, out."""

from __future__ import annotations

from collections.abc import Iterator

from wavespec.diagnostics import WavespecError, Where, quote
from wavespec.ir.kernel import Kernel, Op
from wavespec.ir.thread_ops import LOAD, MMA, STORE
from wavespec.schedule.costs import barrier_latency, cost_of, kind_of
from wavespec.schedule.dependences import dependences, staged_memories
from wavespec.schedule.loop_plan import LoopPlan, fences
from wavespec.schedule.modulo import ModuloSchedule, modulo_schedule
from wavespec.schedule.recurrences import Edge, NotScheduled
from wavespec.targets.machine import Machine


class NoPattern(WavespecError, code="no-modulo-schedule"):
    def __init__(self, where: Where, loop: str, why: str) -> None:
        super().__init__(
            where, f"No modulo schedule of the loop {quote(loop)} was found: {why}.", hints=["Use 'auto: prefetch'."]
        )


def modulo_plan(kernel: Kernel, loop: Op, buffers: int, machine: Machine, where: Where) -> LoopPlan:
    """The pattern with the shortest interval, cut into stages where the first matrix product starts.

    Raises:
        WavespecError: there is none; ``where`` is the place that asked for it.
    """
    assert machine.resources is not None
    ops = loop.body.ops
    copies = dict.fromkeys(staged_memories(kernel, ops), buffers)
    costs = [cost_of(kernel, op, machine) for op in ops]
    meeting = barrier_latency(machine.resources)
    edges = [
        (one.before, one.after, _delay(ops, one.before, costs[one.before].latency, one.kind, meeting), one.distance)
        for one in dependences(kernel, loop, copies)
    ]
    edges += _paired(ops, list(copies))
    try:
        found = modulo_schedule(costs, edges, machine.resources.units)
    except NotScheduled as error:
        raise NoPattern(where, loop.node, f"{quote(_name(ops[error.operation]))} {error.why}") from None
    shift = min((found.start[n] for n, op in enumerate(ops) if op.is_(MMA)), default=0) % found.interval
    start = [at - shift for at in found.start]
    first = min(at // found.interval for at in start)
    stage = tuple(at // found.interval - first for at in start)
    order = tuple(sorted(range(len(ops)), key=lambda number: (start[number] % found.interval, -stage[number], number)))
    return LoopPlan(
        stage, order, copies, fences(_changes(kernel, ops, order)), report=_report(loop, found, max(stage) + 1)
    )


def _paired(ops: tuple[Op, ...], staged: list[str]) -> Iterator[Edge]:
    """Of two tiles' parts on their way through registers, the one that is loaded last is stored first: memory answers
    in order, so one wait serves both.  More than two at once would hold registers for longer than an iteration."""
    maker = {value.name: number for number, op in enumerate(ops) for value in op.results}
    stores = [number for number, op in enumerate(ops) if op.is_(STORE) and op["memory"] in staged]
    for one, other in zip(stores[::2], stores[1::2], strict=False):
        first, second = (maker.get(ops[number].operands[0].name) for number in (one, other))
        if first is not None and second is not None and ops[first].is_(LOAD) and ops[second].is_(LOAD):
            yield (one, other, 1, 0)
            yield (second, first, 1, 0)


def _delay(ops: tuple[Op, ...], before: int, latency: int, kind: str, meeting: int) -> int:
    """Clocks from the start of one operation to that of another that depends on it."""
    if kind in ("shared", "meeting"):
        return latency + meeting
    return latency if kind == "value" else 0


def _changes(kernel: Kernel, ops: tuple[Op, ...], order: tuple[int, ...]) -> Iterator[int]:
    """Around everything that moves data, so that it stays between the products where the pattern has it."""
    kinds = [kind_of(kernel, ops[number]) in ("", "matrix", "vector") for number in order]
    return (at for at in range(1, len(order)) if kinds[at] != kinds[at - 1])


def _name(op: Op) -> str:
    return op.node or op.name


def _report(loop: Op, found: ModuloSchedule, stages: int) -> tuple[str, ...]:
    ops = loop.body.ops
    source = f"the {found.unit} unit is never free" if found.unit else f"the cycle through '{_name(ops[found.cycle])}'"
    lines = [
        f"{loop.node}: an iteration every {found.interval} clocks, {stages} stages; at least {found.bound} "
        f"({source}; resources {found.resource_bound}, recurrences {found.recurrence_bound})."
    ]
    if found.refused:
        interval, number = found.refused[-1]
        tries = f"{found.refused[0][0]} to {interval}" if len(found.refused) > 1 else str(interval)
        lines.append(
            f"{loop.node}: {tries} clocks do not do: "
            f"'{_name(ops[number])}' finds no place that its unit and its dependences leave."
        )
    return tuple(lines)
