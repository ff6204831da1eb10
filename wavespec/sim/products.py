"""Tiles of shared memory in, results in flight out: what a matrix unit computes beside the lanes of one wave."""

from __future__ import annotations

import numpy as np

from wavespec.ir.kernel import Op, Value
from wavespec.sim.accesses import MemoryUnit
from wavespec.sim.elements import Array, some
from wavespec.sim.fragments import MatrixUnit
from wavespec.sim.memories import SimulatedMemory
from wavespec.sim.shadow import Access
from wavespec.sim.tiles import OperandTiles

_ALIGNMENT_BYTES = 16


class ProductUnit:
    """The matrix unit of one wave.

    A result is computed when it is issued; that nothing it reads changes until it is waited for is the shadow's to
    check.  Groups are complete in the order in which they were committed.
    """

    def __init__(self, memory: MemoryUnit, tiles: OperandTiles) -> None:
        self.memory, self.clocks, self._tiles = memory, memory.clocks, tiles
        self.agent = self.clocks.products + int(memory.lanes[0]) // self.clocks.kernel.lanes
        self._commits: list[int] = []
        self._complete = 0
        self._flying: dict[str, int] = {}
        self._written: dict[str, int] = {}
        self._fenced = 0

    def multiply(self, op: Op, unit: MatrixUnit, registers: Array | None, acc: Array) -> tuple[Array, int]:
        """``acc + a·bᵀ``, ``a`` from ``registers`` or from shared memory, and the number of disagreeing replicas."""
        row, threads = unit.instruction, self.memory.symbols.threads
        if row.lanes != threads:
            raise ValueError(f"'{row.name}' is issued by {row.lanes} lanes together, not {threads} ({op.span})")
        self._check_registers(op)
        left, wrong = unit.a.gather(registers) if registers is not None else (self._operand(op, "a", row.m, row.k), 0)
        result, wrong_acc = unit.multiply(left, self._operand(op, "b", row.n, row.k), acc)
        self._flying[op.result.name] = len(self._commits) + 1
        return result, wrong + wrong_acc

    def fence(self) -> None:
        self._fenced = self.clocks.now

    def commit(self) -> None:
        self._commits.append(self.clocks.now)

    def wait(self, op: Op) -> None:
        """All groups but the last ``pending`` are complete."""
        complete = len(self._commits) - int(op["pending"])
        if complete > self._complete:
            self._complete = complete
            self.clocks.complete(self.memory.lanes, self.agent, self._commits[complete - 1])

    def rename(self, values: tuple[Value, ...], names: tuple[Value, ...]) -> None:
        """The same registers under other names."""
        state = [(self._flying.get(value.name), self._written.get(value.name, 0)) for value in values]
        for name, (group, written) in zip(names, state, strict=True):
            self._written[name.name] = written
            self._flying.pop(name.name, None)
            if group is not None:
                self._flying[name.name] = group

    def wrote(self, value: Value) -> None:
        """An ordinary operation made a value."""
        self._written[value.name] = self.clocks.now
        self._flying.pop(value.name, None)

    def check_complete(self, op: Op) -> None:
        """Report an operation that uses results in flight."""
        for value in op.operands:
            if self._flying.get(value.name, 0) > self._complete:
                self.memory.findings.add(
                    "unwaited-product",
                    op,
                    lambda name=value.name: f"'{op.name}' uses %{name}, which the matrix unit may still be computing.",
                )

    def _check_registers(self, op: Op) -> None:
        for value in op.operands:
            if self._written.get(value.name, 0) > self._fenced:
                self.memory.findings.add(
                    "unfenced-registers",
                    op,
                    lambda name=value.name: f"'mma_async' uses %{name}, written after the last 'mma_fence'.",
                )

    def _operand(self, op: Op, which: str, rows: int, depth: int) -> Array:
        """``[1, rows, depth]`` of shared memory."""
        memory = self.memory.memories[op.attribute(f"{which}_memory")]
        offset, buffer = self._uniform(op, f"{which}_offset"), self._uniform(op, f"{which}_buffer")
        start = (buffer * memory.elements + offset) * memory.bytes
        if start % _ALIGNMENT_BYTES:
            self.memory.findings.add(
                "misaligned",
                op,
                lambda: f"'mma_async' reads from byte {start} of @{memory.memory.name}, not a multiple of 16.",
            )
        where = self._tiles.places(memory.memory, start, rows, depth, op.attribute(f"{which}_major"))
        outside = (where < buffer * memory.elements) | (where >= (buffer + 1) * memory.elements)
        outside |= (where < 0) | (where >= len(memory.data))
        inside = None
        if some(outside):
            inside = ~outside
            element = int(where[outside][0]) - buffer * memory.elements
            self.memory.findings.add(
                "out-of-bounds",
                op,
                lambda: (
                    f"'mma_async' touches element {element} of buffer {buffer} of @{memory.memory.name}, which has "
                    f"{memory.elements} elements in {memory.memory.buffers} buffers."
                ),
                count=int(outside.sum()),
            )
        self.memory.statistics.bulk("matrix unit load", memory, rows * depth)
        if inside is None:
            self._report(op, memory, where.reshape(-1))
            return memory.data[where][None]
        self._report(op, memory, where[inside])
        values = np.zeros((rows, depth), memory.data.dtype)
        values[inside] = memory.data[where[inside]]
        return values[None]

    def _uniform(self, op: Op, name: str) -> int:
        values = self.memory.symbols.value(op.attribute(name))
        if isinstance(values, int):
            return values
        if some(values != values[0]):
            text = f"'mma_async' has an {name} that differs in a wave."
            self.memory.findings.add("divergent-operation", op, lambda: text)
        return int(values[0])

    def _report(self, op: Op, memory: SimulatedMemory, where: np.ndarray) -> None:
        assert memory.shadow is not None
        knowledge = self.clocks.common(self.memory.strand)
        ordinal = self.memory.findings.ordinal(op)
        access = Access(self.clocks, ordinal, where, self.agent, self.agent, 0, knowledge, fenced=True)
        self.memory.workgroup.report(op, memory, memory.shadow.read(access))
