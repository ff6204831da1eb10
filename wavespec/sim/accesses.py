"""Memory operations in, registers and findings out: loads, stores and copies of all threads at once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from wavespec.ir.expr import Expr, const
from wavespec.ir.kernel import Kernel, Op
from wavespec.ir.thread import Mask
from wavespec.sim.elements import Array, Flags, Integers, bits
from wavespec.sim.findings import FindingList
from wavespec.sim.fragments import MATRIX_LOAD_LANES, distributed_matrices
from wavespec.sim.memories import SimulatedMemory
from wavespec.sim.shadow import MANY, Conflict
from wavespec.sim.statistics import Statistics
from wavespec.sim.symbols import SymbolValues
from wavespec.targets.machine import Machine


@dataclass(frozen=True, slots=True)
class _Copy:
    """One asynchronous copy in flight: parallel arrays, one entry per element."""

    op: Op
    target: SimulatedMemory
    index: Integers
    thread: Integers
    values: Array


class MemoryUnit:
    """The memories as one workgroup sees them; every access is checked, then done."""

    def __init__(
        self,
        kernel: Kernel,
        machine: Machine,
        memories: dict[str, SimulatedMemory],
        findings: FindingList,
        statistics: Statistics,
        symbols: SymbolValues,
        workgroup: int,
        epoch: int,
    ) -> None:
        self.kernel, self.machine, self.memories = kernel, machine, memories
        self.findings, self.statistics, self.symbols = findings, statistics, symbols
        self.workgroup, self.epoch = workgroup, epoch
        self._open: list[_Copy] = []
        self._groups: list[list[_Copy]] = []

    def load(self, op: Op) -> Array:
        """``[threads, elements]``; zeros where masked off or out of bounds."""
        count = op.result.vector.elements
        source = self.memories[op["memory"]]
        return self._read(op, source, op["offset"], op.get("buffer"), self._active(op, count), required_alignment=False)

    def store(self, op: Op, values: Array) -> None:
        target = self.memories[op["memory"]]
        index, active = self._elements(
            op, target, op["offset"], op.get("buffer"), values.shape[1], self._active(op, values.shape[1])
        )
        if op.get("valid") is None or not self.machine.globals.checked_stores:
            self._check_alignment(op, target, index, active, required=False)
        self.statistics.access(op, "store", target, index, active)
        if target.shadow is None:
            self.findings.add("store-to-input", op, lambda: f"'store' writes the input tensor @{target.memory.name}.")
            return
        where, thread, stored = index[active], self._threads(active), values[active]
        self._report(op, target, target.shadow.write(where, thread, self.epoch, self.findings.ordinal(op)))
        if target.owner is not None:
            owner = target.owner[where]
            foreign = (owner > 0) & (owner != self.workgroup + 1) & (bits(target.data[where]) != bits(stored))
            if foreign.any():
                element, other = int(where[foreign][0]), int(owner[foreign][0]) - 1
                self.findings.add(
                    "output-conflict",
                    op,
                    lambda: (
                        f"Workgroups {other} and {self.workgroup} store different values to element "
                        f"{_coordinate(target, element)} of @{target.memory.name}."
                    ),
                    count=int(foreign.sum()),
                )
            target.owner[where] = self.workgroup + 1
        self._place(op, target, where, thread, stored)

    def accumulate(self, op: Op, values: Array) -> None:
        """Add what the memory holds where ``onto`` holds, then store."""
        count, memory = values.shape[1], self.memories[op["memory"]]
        active = self._active(op, count) & self._holds(op["onto"])[:, None]
        before = self._read(op, memory, op["offset"], op.get("buffer"), active, required_alignment=False)
        self.store(op, values + before)

    def load_tile(self, op: Op) -> Array:
        """``[threads, rows * columns]``, row after row."""
        memory, active = self.memories[op["memory"]], np.ones((self.symbols.threads, op["columns"]), np.bool_)
        offsets = (op["offset"] + row * op["stride"] for row in range(op["rows"]))
        rows = [self._read(op, memory, at, op.get("buffer"), active, required_alignment=False) for at in offsets]
        return np.concatenate(rows, axis=1)

    def load_matrix(self, op: Op) -> Array:
        """Matrices of 8 rows of 16 bytes, 4 bytes a thread of each; of 32 lanes, lane 8j + r names row r of matrix
        j."""
        source, count = self.memories[op["memory"]], int(op["count"])
        width = 16 // source.bytes
        lane = np.arange(self.symbols.threads) % MATRIX_LOAD_LANES
        active = np.repeat((lane < 8 * count)[:, None], width, axis=1)
        index, inside = self._elements(op, source, op["offset"], op.get("buffer"), width, active)
        self._check_alignment(op, source, index, inside, required=True)
        self.statistics.access(op, "matrix load", source, index, inside)
        where = index[inside]
        if source.shadow is not None:
            # Four lanes get each row, so the read belongs to no single thread.
            nobody = np.full(len(where), MANY)
            self._report(op, source, source.shadow.read(where, nobody, self.epoch, self.findings.ordinal(op)))
        rows = np.zeros(index.shape, source.data.dtype)
        rows[inside] = source.data[where]
        matrices = rows.reshape(-1, MATRIX_LOAD_LANES // 8, 8, width)[:, :count]
        return distributed_matrices(matrices)

    def copy_async(self, op: Op) -> None:
        source, target, count = self.memories[op["source"]], self.memories[op["memory"]], int(op["elements"])
        values = self._read(op, source, op["source_offset"], None, self._active(op, count), required_alignment=True)
        everywhere = np.ones(values.shape, np.bool_)
        index, inside = self._elements(op, target, op["offset"], op.get("buffer"), count, everywhere)
        self._check_alignment(op, target, index, inside, required=True)
        self.statistics.access(op, "async store", target, index, inside)
        where, thread = index[inside], self._threads(inside)
        assert target.shadow is not None, f"copy_async into the input @{target.memory.name}"
        self._report(op, target, target.shadow.issue(where, thread, self.epoch, self.findings.ordinal(op)))
        self._open.append(_Copy(op, target, where, thread, values[inside]))

    def commit(self) -> None:
        self._groups.append(self._open)
        self._open = []

    def wait(self, pending: int) -> None:
        """Land every group but the last ``pending``."""
        finished = max(0, len(self._groups) - pending)
        for copy in (copy for group in self._groups[:finished] for copy in group):
            assert copy.target.shadow is not None
            copy.target.shadow.land(copy.index, copy.thread, self.epoch, self.findings.ordinal(copy.op))
            self._place(copy.op, copy.target, copy.index, copy.thread, copy.values)
        del self._groups[:finished]

    def barrier(self) -> None:
        self.epoch += 1

    def _read(
        self,
        op: Op,
        source: SimulatedMemory,
        offset: Expr,
        buffer: Expr | None,
        active: Flags,
        *,
        required_alignment: bool,
    ) -> Array:
        index, active = self._elements(op, source, offset, buffer, active.shape[1], active)
        self._check_alignment(op, source, index, active, required=required_alignment)
        self.statistics.access(op, "load", source, index, active)
        everything = bool(active.all())
        where = index.reshape(-1) if everything else index[active]
        if source.shadow is not None:
            self._report(
                op,
                source,
                source.shadow.read(where, self._threads(active), self.epoch, self.findings.ordinal(op)),
            )
        if source.owner is not None:
            foreign = (source.owner[where] > 0) & (source.owner[where] != self.workgroup + 1)
            if foreign.any():
                element = int(where[foreign][0])
                self.findings.add(
                    "race",
                    op,
                    lambda: (
                        f"'{op.name}' reads element {_coordinate(source, element)} of @{source.memory.name}, "
                        "which another workgroup writes; workgroups run in any order."
                    ),
                    count=int(foreign.sum()),
                )
        if everything:
            return source.data[index]
        values = np.zeros(index.shape, source.data.dtype)
        values[active] = source.data[where]
        return values

    def _active(self, op: Op, count: int) -> Flags:
        """Which elements of which threads exist: the mask, then ``valid``."""
        threads = self._holds(op.get("mask") or ())
        valid: Expr | None = op.get("valid")
        if valid is None:
            return np.repeat(threads[:, None], count, axis=1)
        return threads[:, None] & (np.arange(count) < self.symbols.per_thread(valid)[:, None])

    def _holds(self, mask: Mask) -> Flags:
        """In which threads every ``left < right`` holds."""
        threads = np.ones(self.symbols.threads, np.bool_)
        for left, right in mask:
            threads = threads & (self.symbols.per_thread(left) < self.symbols.per_thread(right))
        return threads

    def _elements(
        self, op: Op, target: SimulatedMemory, offset: Expr, buffer: Expr | None, count: int, active: Flags
    ) -> tuple[Integers, Flags]:
        """Flat element indices ``[threads, count]`` and which of them are active and inside the memory."""
        index = self.symbols.per_thread(offset)[:, None] + np.arange(count)
        copy = self.symbols.per_thread(const(0) if buffer is None else buffer)
        wrong_copy = (copy < 0) | (copy >= target.memory.buffers)
        outside = active & ((index < 0) | (index >= target.elements) | wrong_copy[:, None])
        flat = index + (copy * target.elements)[:, None]
        if not outside.any():
            return flat, active
        thread, position = (int(found[0]) for found in np.nonzero(outside))
        element = int(index[thread, position])
        place = f"buffer {int(copy[thread])} of " if wrong_copy[thread] else ""
        place += f"@{target.memory.name}"
        copies = f" in {target.memory.buffers} buffers" if target.memory.buffers > 1 else ""
        self.findings.add(
            "out-of-bounds",
            op,
            lambda: (
                f"'{op.name}' touches element {element} of {place}, which has {target.elements} elements"
                f"{copies}, in {self._thread(thread)}."
            ),
            count=int(outside.sum()),
        )
        return flat, active & ~outside

    def _check_alignment(
        self, op: Op, target: SimulatedMemory, index: Integers, active: Flags, *, required: bool
    ) -> None:
        if target.memory.space == "private" or (self.machine.globals.any_alignment and not required):
            return
        space = self.machine.shared if target.memory.space == "shared" else self.machine.globals
        width = index.shape[1] * target.bytes
        piece = max(target.bytes, min(space.access_bytes, width & -width))
        if target.memory.space == "global" and self.machine.globals.alignment_bytes:
            piece = min(piece, self.machine.globals.alignment_bytes)
        # A plain access that sticks out of its row is done element by element.
        whole = active.any(axis=1) if required else active.all(axis=1)
        wrong = whole & (index[:, 0] * target.bytes % piece != 0)
        if wrong.any():
            thread = int(np.argmax(wrong))
            self.findings.add(
                "misaligned",
                op,
                lambda: (
                    f"'{op.name}' moves {piece} bytes at byte {int(index[thread, 0]) * target.bytes} of "
                    f"@{target.memory.name}, which is not a multiple of {piece}, in {self._thread(thread)}."
                ),
                severity="error" if required else "warning",
                count=int(wrong.sum()),
            )

    def _place(self, op: Op, target: SimulatedMemory, where: Integers, thread: Integers, values: Array) -> None:
        """Write, and report elements that two threads of this one operation write differently."""
        target.data[where] = values
        clash = bits(target.data[where]) != bits(values)
        if clash.any():
            element, first = int(where[clash][0]), int(thread[clash][0])
            self.findings.add(
                "race",
                op,
                lambda: (
                    f"'{op.name}' writes different values from several threads to element "
                    f"{_coordinate(target, element)} of @{target.memory.name}, one is {self._thread(first)}."
                ),
                count=int(clash.sum()),
            )

    def _report(self, op: Op, target: SimulatedMemory, conflicts: Iterable[Conflict]) -> None:
        for conflict in conflicts:

            def message(conflict: Conflict = conflict) -> str:
                element = f"element {_coordinate(target, conflict.element)} of @{target.memory.name}"
                where, what = self._thread(conflict.thread), conflict.what
                match conflict.kind:
                    case "race":
                        other = self._thread(conflict.other_thread)
                        return f"'{op.name}' {what} without a barrier between: {element}, {where} and {other}."
                    case "unwritten-read":
                        return f"'{op.name}' {what} {element}, which nothing has written, in {where}."
                    case "unwaited-copy":
                        return f"'{op.name}' {what} {element}, with an asynchronous copy in flight, in {where}."

            self.findings.add(conflict.kind, op, message, other=conflict.other_op, count=conflict.count)

    def _threads(self, active: Flags) -> Integers:
        return np.nonzero(active)[0]

    def _thread(self, thread: int) -> str:
        """Words for one thread."""
        if thread < 0:
            return "several lanes"
        workgroup = f"workgroup {self.workgroup}"
        if self.kernel.threads == 1:
            return workgroup
        return f"lane {thread % self.kernel.lanes} of wave {thread // self.kernel.lanes} of {workgroup}"


def _coordinate(target: SimulatedMemory, element: int) -> str:
    """An element as a coordinate of its tensor, or as buffer and offset."""
    if target.shape:
        return "[" + ", ".join(str(int(part)) for part in np.unravel_index(element, target.shape)) + "]"
    buffer, offset = divmod(element, target.elements)
    return f"{offset} (buffer {buffer})" if target.memory.buffers > 1 else str(offset)
