"""Accesses in, figures out: operations, bytes, widths and bank conflicts of one simulation."""

from __future__ import annotations

from collections import Counter, defaultdict

import numpy as np

from wavespec.ir.kernel import Op
from wavespec.sim.banks import access_cycles
from wavespec.sim.elements import Flags, Integers
from wavespec.sim.memories import SimulatedMemory
from wavespec.targets.machine import Machine


class Statistics:
    """Counts of one simulation; bank conflicts are those of its first workgroup, which is typical of all."""

    def __init__(self, machine: Machine, lanes: int) -> None:
        self.machine, self.lanes = machine, lanes
        self.counts: Counter[str] = Counter()
        self._cycles: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0])
        self.measure_banks = True

    def access(self, op: Op, verb: str, target: SimulatedMemory, index: Integers, active: Flags) -> None:
        """One access of ``index[threads, elements]``, of which ``active`` take part."""
        space = target.memory.space
        threads: Flags = np.any(active, axis=1)
        width = index.shape[1] * target.bytes
        self.counts[f"{space} {verb} bytes"] += int(np.count_nonzero(active)) * target.bytes
        self.counts[f"{space} {verb} {width} B"] += int(np.count_nonzero(threads))
        shared = self.machine.shared
        if space == "shared" and shared.banks and self.measure_banks and len(index) % self.lanes == 0 and width:
            cycles, ideal = access_cycles(index[:, 0] * target.bytes, threads, width, self.lanes, shared)
            total = self._cycles[f"{op.name} @{target.memory.name}" + (f" ({op.span})" if op.span else "")]
            total[0] += cycles
            total[1] += ideal

    def bulk(self, verb: str, target: SimulatedMemory, elements: int) -> None:
        """Elements moved by a copy engine or read by a matrix unit."""
        self.counts[f"{target.memory.space} {verb} bytes"] += elements * target.bytes

    def bank_conflicts(self) -> dict[str, float]:
        """Cycles over conflict-free cycles for each shared access: 1.0 is free of conflicts."""
        return {name: cycles / ideal for name, (cycles, ideal) in self._cycles.items() if ideal}
