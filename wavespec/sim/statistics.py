"""Accesses in, figures out: operations, bytes, widths and bank conflicts of one simulation."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from wavespec.diagnostics import enumeration
from wavespec.ir.kernel import Kernel, Op
from wavespec.sim.banks import access_cycles, busiest_bank
from wavespec.sim.elements import Flags, Integers
from wavespec.sim.findings import Finding, FindingList
from wavespec.sim.memories import SimulatedMemory
from wavespec.sim.touched import Touched
from wavespec.targets.machine import Machine

_MOST_LANES = 8


@dataclass(slots=True)
class _BankUse:
    """All accesses of one operation name to one shared memory, from one line."""

    op: Op
    cycles: int = 0
    ideal: int = 0
    first: str = ""
    """Words for the first conflict."""


class Statistics:
    """Counts of one simulation; bank conflicts are those of its first workgroup, which is typical of all."""

    def __init__(self, machine: Machine, kernel: Kernel) -> None:
        self.machine, self.kernel = machine, kernel
        self.counts: Counter[str] = Counter()
        self._banks: dict[str, _BankUse] = {}
        self._bank_uses: dict[tuple[int, str], _BankUse] = {}
        self._patterns: dict[tuple[int, bytes, bytes], tuple[int, int]] = {}
        self.measure_banks = True

    def access(self, op: Op, verb: str, target: SimulatedMemory, touched: Touched, lanes: Integers) -> None:
        """One access by ``lanes[threads]``."""
        space, threads, width = target.memory.space, touched.some, touched.count * target.bytes
        self.counts[f"{space} {verb} bytes"] += len(touched.where) * target.bytes
        self.counts[f"{space} {verb} {width} B"] += len(lanes) if threads is None else int(np.count_nonzero(threads))
        shared, wave_lanes = self.machine.shared, self.kernel.lanes
        if space == "shared" and shared.banks and self.measure_banks and len(lanes) % wave_lanes == 0 and width:
            if threads is None:
                threads = np.ones(len(lanes), np.bool_)
            bits = target.memory.bytes_of(8)  # of an element: the simulator gives a byte to those that share one
            address, use = touched.start * bits // 8, self._use(op, target)
            width = max(1, touched.count * bits // 8)
            cycles, ideal = self._cycles(address, threads, width)
            use.cycles += cycles
            use.ideal += ideal
            if cycles > ideal and not use.first:
                asking = busiest_bank(address, threads, width, wave_lanes, shared)
                use.first = self._words(lanes[list(asking)], touched.start[list(asking)])

    def access_of_nobody(self, verb: str, target: SimulatedMemory, count: int) -> None:
        """An access to ``count`` elements that every lane leaves out: figures tell that there is one."""
        self.counts[f"{target.memory.space} {verb} bytes"] += 0
        self.counts[f"{target.memory.space} {verb} {count * target.bytes} B"] += 0

    def _use(self, op: Op, target: SimulatedMemory) -> _BankUse:
        by_op = self._bank_uses.get((id(op), target.memory.name))
        if by_op is None:
            name = f"{op.name} @{target.memory.name}" + (f" ({op.span})" if op.span else "")
            by_op = self._banks.setdefault(name, _BankUse(op))
            self._bank_uses[id(op), target.memory.name] = by_op
        return by_op

    def _cycles(self, address: Integers, threads: Flags, width: int) -> tuple[int, int]:
        """`access_cycles` of a pattern of addresses, the same wherever in rows of banks it starts."""
        shared = self.machine.shared
        row_bytes = shared.banks * shared.bank_bytes
        address = address - address.min() // row_bytes * row_bytes
        pattern = (width, address.tobytes(), threads.tobytes())
        cycles = self._patterns.get(pattern)
        if cycles is None:
            cycles = self._patterns[pattern] = access_cycles(address, threads, width, self.kernel.lanes, shared)
        return cycles

    def bulk(self, verb: str, target: SimulatedMemory, elements: int) -> None:
        """Elements moved by a copy engine or read by a matrix unit."""
        self.counts[f"{target.memory.space} {verb} bytes"] += elements * target.bytes

    def bank_conflicts(self) -> dict[str, float]:
        """Cycles over conflict-free cycles for each shared access: 1.0 is free of conflicts."""
        return {name: use.cycles / use.ideal for name, use in self._banks.items() if use.ideal}

    def slow_accesses(self, findings: FindingList) -> tuple[Finding, ...]:
        """A warning for each shared access with bank conflicts, in program order."""
        conflicts = (use for use in self._banks.values() if use.cycles > use.ideal)
        return tuple(_warning(use, findings) for use in sorted(conflicts, key=lambda use: findings.ordinal(use.op)))

    def _words(self, lanes: Integers, elements: Integers) -> str:
        """Who asks a bank for which elements."""
        wave = int(lanes[0]) % self.kernel.threads // self.kernel.lanes
        shown, more = lanes[:_MOST_LANES] % self.kernel.lanes, "; these are the first" * (len(lanes) > _MOST_LANES)
        those = f"lanes {enumeration(map(str, shown))} of wave {wave}" if len(lanes) > 1 else f"lane {shown[0]}"
        asked = enumeration(map(str, elements[:_MOST_LANES]))
        return f"{those} ask one bank for elements {asked}, one after the other{more}"


def _warning(use: _BankUse, findings: FindingList) -> Finding:
    op = use.op
    text = (
        f"'{op.name}' of @{op['memory']} takes {use.cycles} cycles of shared memory in a workgroup, "
        f"{use.ideal} without bank conflicts: {use.first}."
    )
    return Finding("bank-conflict", text, op.span, op, findings.place(findings.ordinal(op)), severity="warning")
