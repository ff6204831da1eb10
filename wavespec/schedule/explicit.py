"""Stages and clusters that a spec names in; a plan, or what is wrong with them at their lines, out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from wavespec.diagnostics import WavespecError, Where, name_hints, quote
from wavespec.ir.kernel import Kernel, LoopSchedule, Op
from wavespec.ir.thread_ops import ASYNC_COMMIT, ASYNC_WAIT, COPY_ASYNC, LANES_FILL
from wavespec.schedule.costs import barrier_latency, cost_of
from wavespec.schedule.dependences import Dependence, dependences, staged_memories
from wavespec.schedule.list_schedule import list_schedule
from wavespec.schedule.loop_plan import LoopPlan, fences, fewest_buffers, violated
from wavespec.targets.machine import Machine


class UnknownNode(WavespecError, code="unknown-node"):
    def __init__(self, where: Where, name: str, loop: str, known: list[str]) -> None:
        super().__init__(
            where, f"The loop {quote(loop)} has no node {quote(name)}.", hints=name_hints(name, known, "Its nodes are")
        )


class RepeatedNode(WavespecError, code="repeated-node"):
    def __init__(self, where: Where, name: str) -> None:
        super().__init__(where, f"{quote(name)} is in two clusters.", hints=["Delete one of them."])


class BrokenDependence(WavespecError, code="broken-dependence"):
    """A node comes before what it depends on."""

    def __init__(self, where: Where, names: tuple[str, str], stages: tuple[int, int], one: Dependence) -> None:
        before, after = names
        step = f", {one.distance} step{'s' if one.distance > 1 else ''} later" if one.distance else ""
        message = f"{quote(after)} comes before {quote(before)}, on which it depends{step}: {one.why}."
        if stages[0] > stages[1] + one.distance:
            hint = f"Give {quote(after)} a stage of at least {stages[0] - one.distance}."
        else:
            hint = f"Put {quote(before)} in an earlier stage, or in an earlier cluster."
        super().__init__(where, message, notes=[f"They are in stages {stages[1]} and {stages[0]}."], hints=[hint])


def explicit_plan(kernel: Kernel, loop: Op, schedule: LoopSchedule, machine: Machine) -> LoopPlan:
    """The plan that ``nodes`` and ``clusters`` describe.

    Raises:
        WavespecError: a name that is no node of the loop, or a node before what it depends on.
    """
    ops = loop.body.ops
    known = list(dict.fromkeys(op.node for op in ops if op.node))
    # A copy that needs no registers on its way has no store of its own.
    known += [op.node.replace(".load", ".store") for op in ops if op.is_(COPY_ASYNC)]
    stages = dict(schedule.nodes)
    for name in stages:
        if name not in known:
            raise UnknownNode(schedule.where_key("nodes", name), name, schedule.loop, known)
    group: dict[str, int] = {}
    for number, cluster in enumerate(schedule.clusters):
        for at, name in enumerate(cluster):
            where = schedule.where("clusters", number, at)
            if name not in known:
                raise UnknownNode(where, name, schedule.loop, known)
            if name in group:
                raise RepeatedNode(where, name)
            group[name] = number
    last = max(stages.values(), default=0)
    stage = _bookkeeping(ops, [stages.get(op.node, last) for op in ops])
    every = dependences(kernel, loop, {name: 10**6 for name in staged_memories(kernel, ops)})
    order = _order(kernel, ops, stage, every, group, machine)
    _check(ops, stage, order, every, schedule)
    buffers = _buffers(kernel, ops, stage, order, schedule)
    _check(ops, stage, order, dependences(kernel, loop, buffers), schedule)
    changes = (at for at in range(1, len(order)) if _group(ops, order[at], group) != _group(ops, order[at - 1], group))
    return LoopPlan(tuple(stage), tuple(order), buffers, fences(changes) if group else ())


def _bookkeeping(ops: tuple[Op, ...], stage: list[int]) -> list[int]:
    """Commits go with the copies, waits with the first that reads what was copied."""
    copied = {op["memory"] for op in ops if op.is_(COPY_ASYNC)}
    copies = [stage[n] for n, op in enumerate(ops) if op.is_(COPY_ASYNC)]
    reads = [stage[n] for n, op in enumerate(ops) if not op.is_(COPY_ASYNC) and op.get("memory") in copied]
    own = {ASYNC_COMMIT.name: max(copies, default=0), ASYNC_WAIT.name: min(reads, default=0)}
    return [own.get(op.name, stage[number]) for number, op in enumerate(ops)]


def _group(ops: tuple[Op, ...], number: int, group: Mapping[str, int]) -> int:
    return group.get(ops[number].node, len(group))


def _order(
    kernel: Kernel,
    ops: tuple[Op, ...],
    stage: list[int],
    every: Iterable[Dependence],
    group: Mapping[str, int],
    machine: Machine,
) -> list[int]:
    """Cluster by cluster; inside of one, and without any, as a list schedule puts them."""
    assert machine.resources is not None
    costs = [cost_of(kernel, op, machine) for op in ops]
    meeting = barrier_latency(machine.resources)
    edges = [
        (one.before, one.after, costs[one.before].latency + (meeting if one.kind == "shared" else 0))
        for one in every
        if stage[one.after] + one.distance == stage[one.before]
    ]
    # What a step reads comes before what a later step writes in its place.
    staged = staged_memories(kernel, ops)
    for reader, op in enumerate(ops):
        if not op.is_(LANES_FILL) and op.get("memory") in staged:
            edges += [
                (reader, writer, 0)
                for writer, other in enumerate(ops)
                if other.is_(LANES_FILL) and stage[writer] < stage[reader]
            ]
    if not group:
        start = list_schedule(costs, edges, dict(machine.resources.units))
        return sorted(range(len(ops)), key=lambda number: (start[number], number))
    place = [group.get(op.node, len(ops)) for op in ops]
    for number, op in enumerate(ops):  # bookkeeping has no name: behind the last copy, before the first read
        if op.is_(ASYNC_COMMIT):  # what is copied in stages before was so in other rounds
            copies = [n for n, other in enumerate(ops) if other.is_(COPY_ASYNC) and stage[n] == stage[number]]
            place[number] = max(place[n] for n in copies)
        if op.is_(ASYNC_WAIT):
            place[number] = min(place[one.after] for one in every if one.before == number)
    return sorted(range(len(ops)), key=lambda number: (place[number], number))


def _buffers(
    kernel: Kernel, ops: tuple[Op, ...], stage: list[int], order: list[int], schedule: LoopSchedule
) -> dict[str, int]:
    found: dict[str, int] = {}
    for name in staged_memories(kernel, ops):
        touching = [number for number, op in enumerate(ops) if op.get("memory") == name]
        writes = [number for number in touching if ops[number].is_(LANES_FILL)]
        reads = [number for number in touching if number not in writes]
        found[name] = schedule.buffers or fewest_buffers(stage, order, writes, reads)
    return found


def _check(
    ops: tuple[Op, ...], stage: list[int], order: list[int], every: Iterable[Dependence], schedule: LoopSchedule
) -> None:
    for one in violated(stage, order, (one for one in every if one.kind != "meeting")):
        names = ops[one.before].node, ops[one.after].node
        if names[0] == names[1] or not all(names):
            continue
        in_clusters = {
            name: (number, at) for number, cluster in enumerate(schedule.clusters) for at, name in enumerate(cluster)
        }
        if names[1] in dict(schedule.nodes):
            where = schedule.where("nodes", names[1])
        elif names[1] in in_clusters:
            where = schedule.where("clusters", *in_clusters[names[1]])
        else:
            where = schedule.where("nodes")
        raise BrokenDependence(where, names, (stage[one.before], stage[one.after]), one)
