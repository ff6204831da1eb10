"""Strands in, one interleaving of their steps out: waves run apart, and wait at barriers and signals."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from wavespec.ir.kernel import Op
from wavespec.sim.findings import FindingList
from wavespec.sim.workgroup import Workgroup

Order = Literal["forward", "reverse"] | int
"""Which of the strands that can go on does: the first, the last, or one picked at random from a seed."""


@dataclass(frozen=True, slots=True)
class Wait:
    """A strand cannot go on until something is true."""

    op: Op
    over: Callable[[], bool]
    words: Callable[[], str]
    is_stop: bool = False
    """Whether it is asked to stand still, so that those who wait for it are in no deadlock."""


Course = Generator[Wait, None, None]


@dataclass(slots=True)
class Meetings:
    """The barriers of a workgroup: waves that have come, by the waves that they wait for."""

    workgroup: Workgroup
    _come: dict[frozenset[int], list[int]] = field(default_factory=dict[frozenset[int], list[int]])
    _over: dict[frozenset[int], int] = field(default_factory=dict[frozenset[int], int])

    def come(self, op: Op, wave: int, waves: frozenset[int]) -> Wait:
        """A wave comes to the barrier of some waves."""
        come = self._come.setdefault(waves, [])
        number = self._over.setdefault(waves, 0)
        come.append(wave)
        if len(come) == len(waves):
            kernel, first = self.workgroup.kernel, self.workgroup.rank * self.workgroup.kernel.threads
            lanes = [first + w * kernel.lanes + np.arange(kernel.lanes) for w in sorted(come)]
            self.workgroup.clocks.barrier(np.concatenate(lanes))
            self.workgroup.statistics.counts["barrier"] += 1
            self._over[waves] += 1
            come.clear()

        def words() -> str:
            missing = ", ".join(str(w) for w in sorted(waves.difference(self._come[waves])))
            return f"for wave {missing}"

        return Wait(op, lambda: self._over[waves] > number, words)


@dataclass(slots=True)
class _Strand:
    name: str
    course: Course
    wait: Wait | None = None
    done: bool = False


def interleave(
    courses: Mapping[str, Course], landing: deque[Callable[[], None]], findings: FindingList, order: Order
) -> bool:
    """Run strands, by their names, to the end; or until everybody waits, which is reported: False.

    ``landing``: bulk copies in flight.  Who waits for one that is asked to stand still is in no deadlock.
    """
    strands = [_Strand(name, course) for name, course in courses.items()]
    chance = random.Random(order) if isinstance(order, int) else None
    while True:
        ready = [strand for strand in strands if not strand.done and (strand.wait is None or strand.wait.over())]
        # Bulk copies land in the order of their issue, at any time: as if the copy engine were the last strand.
        choices: list[_Strand | None] = [*ready, *([None] if landing else [])]
        if not choices:
            break
        chosen = chance.choice(choices) if chance else choices[-1 if order == "reverse" else 0]
        if chosen is None:
            landing.popleft()()
            continue
        chosen.wait = next(chosen.course, None)
        chosen.done = chosen.wait is None
    waiting = {strand.name: strand.wait for strand in strands if strand.wait is not None}
    if waiting and not any(wait.is_stop for wait in waiting.values()):
        _deadlock(findings, waiting)
    return not waiting


def _deadlock(findings: FindingList, waiting: dict[str, Wait]) -> None:
    def line(wait: Wait) -> str:
        if wait.op.span:
            return f"line {wait.op.span.line}"
        return f"operation {findings.ordinal(wait.op)}"

    parts = [f"{name} at '{wait.op.name}' ({line(wait)}) {wait.words()}" for name, wait in waiting.items()]
    text = f"Everybody waits: {'; '.join(parts)}."
    others = [findings.ordinal(wait.op) for wait in waiting.values() if wait.op.span]
    findings.add(
        "deadlock",
        next(iter(waiting.values())).op,
        lambda: text,
        other=next((other for other in others if other != others[0]), -1),
    )
