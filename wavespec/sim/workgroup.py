"""What the waves of one running workgroup share: memories, signals, clocks, and where findings go."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from wavespec.ir.kernel import Kernel, Op
from wavespec.sim.clocks import Clocks
from wavespec.sim.elements import Array, Integers, bits, some
from wavespec.sim.findings import FindingList
from wavespec.sim.memories import SHARED, SimulatedMemory
from wavespec.sim.shadow import Conflict
from wavespec.sim.signals import Signal
from wavespec.sim.statistics import Statistics
from wavespec.targets.machine import Machine


@dataclass(slots=True)
class Workgroup:
    """One workgroup: its ``number`` in the grid, its ``rank`` among those of its ``cluster``, which run together."""

    kernel: Kernel
    machine: Machine
    memories: dict[str, SimulatedMemory]
    findings: FindingList
    statistics: Statistics
    clocks: Clocks
    signals: dict[str, list[Signal]]
    landing: deque[Callable[[], None]]
    """Bulk copies of the cluster in flight, in the order in which they were issued."""
    number: int
    rank: int
    cluster: list[Workgroup]

    def report(self, op: Op, target: SimulatedMemory, conflicts: Iterable[Conflict]) -> None:
        for conflict in conflicts:
            text = self._words(op, target, conflict)
            self.findings.add(conflict.kind, op, lambda t=text: t, other=conflict.other_op, count=conflict.count)

    def place(self, op: Op, target: SimulatedMemory, where: Integers, by: Callable[[int], int], values: Array) -> None:
        """Write, and report elements that one operation writes differently; ``by`` gives the actor of a position."""
        target.data[where] = values
        clash = bits(target.data[where]) != bits(values)
        if some(clash):
            first = int(np.argmax(clash))
            self.findings.add(
                "race",
                op,
                lambda: (
                    f"'{op.name}' writes different values from several threads to element "
                    f"{coordinate(target, int(where[first]))} of @{target.memory.name}, "
                    f"one is {self.clocks.words(by(first))}."
                ),
                count=int(clash.sum()),
            )

    def own(self, op: Op, target: SimulatedMemory, where: Integers, values: Array) -> None:
        """Record that this workgroup writes elements of a tensor; report those that another one writes differently."""
        if target.owner is None:
            return
        owner = target.owner[where]
        if some(owner == SHARED):
            self._mixed(op, target, where[owner == SHARED], "stores")
        foreign = (owner > 0) & (owner != self.number + 1)
        if some(foreign):
            foreign &= bits(target.data[where]) != bits(values)
        if some(foreign):
            element, other = int(where[foreign][0]), int(owner[foreign][0]) - 1
            self.findings.add(
                "output-conflict",
                op,
                lambda: (
                    f"Workgroups {other} and {self.number} store different values to element "
                    f"{coordinate(target, element)} of @{target.memory.name}."
                ),
                count=int(foreign.sum()),
            )
        target.owner[where] = self.number + 1

    def share(self, op: Op, target: SimulatedMemory, where: Integers) -> None:
        """Record that workgroups combine something with elements of a tensor; report those that another one stores."""
        if target.owner is None:
            return
        owner = target.owner[where]
        foreign = (owner > 0) & (owner != self.number + 1)
        if some(foreign):
            self._mixed(op, target, where[foreign], "combines something with")
        target.owner[where] = SHARED

    def _mixed(self, op: Op, target: SimulatedMemory, where: Integers, does: str) -> None:
        element = coordinate(target, int(where[0]))
        text = (
            f"Workgroup {self.number} {does} element {element} of @{target.memory.name}, which some store and others "
            "combine something with; workgroups run in any order."
        )
        self.findings.add("output-conflict", op, lambda: text, count=len(where))

    def _words(self, op: Op, target: SimulatedMemory, conflict: Conflict) -> str:
        element = f"element {coordinate(target, conflict.element)} of @{target.memory.name}"
        where, what = self.clocks.words(conflict.actor), conflict.what
        match conflict.kind:
            case "race":
                other = self.clocks.words(conflict.other_actor)
                beside = max(conflict.actor, conflict.other_actor) >= self.clocks.copies
                between = "with nothing that orders them" if beside else "without a barrier between"
                return f"'{op.name}' {what} {between}: {element}, {where} and {other}."
            case "unwritten-read":
                return f"'{op.name}' {what} {element}, which nothing has written, in {where}."
            case "unwaited-copy":
                return f"'{op.name}' {what} {element}, with an asynchronous copy in flight, in {where}."
            case "unfenced-access":
                other = self.clocks.words(conflict.other_actor)
                return f"'{op.name}' {what} {element}, which {other} wrote without a 'fence_async' after it."


def coordinate(target: SimulatedMemory, element: int) -> str:
    """An element as a coordinate of its tensor, or as buffer and offset."""
    if target.shape:
        return f"[{', '.join(map(str, target.coordinate_of(element)))}]"
    buffer, offset = divmod(element, target.elements)
    return f"{offset} (buffer {buffer})" if target.memory.buffers > 1 else str(offset)
