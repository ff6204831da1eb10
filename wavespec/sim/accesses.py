"""Memory operations in, registers and findings out: loads, stores and copies of all lanes of a strand at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from wavespec.ir.expr import Expr, const
from wavespec.ir.kernel import Op
from wavespec.ir.thread import Mask
from wavespec.sim.elements import Array, Flags, Integers, bits, combined
from wavespec.sim.fragments import MATRIX_LOAD_LANES, collected_matrices, distributed_matrices
from wavespec.sim.memories import SimulatedMemory
from wavespec.sim.shadow import Access
from wavespec.sim.symbols import SymbolValues
from wavespec.sim.workgroup import Workgroup, coordinate

_ANYTHING = 77
"""What is read around a tensor."""


@dataclass(frozen=True, slots=True)
class _Copy:
    """One asynchronous copy in flight: parallel arrays, one entry per element."""

    op: Op
    target: SimulatedMemory
    index: Integers
    lanes: Integers
    values: Array


class MemoryUnit:
    """The memories as the lanes of one strand see them; every access is checked, then done.

    ``enabled``: the lanes that take part in what is executed now, ``[threads]``.
    """

    def __init__(self, workgroup: Workgroup, symbols: SymbolValues) -> None:
        self.workgroup, self.symbols = workgroup, symbols
        self.machine, self.memories = workgroup.machine, workgroup.memories
        self.findings, self.statistics = workgroup.findings, workgroup.statistics
        self.clocks = workgroup.clocks
        first = workgroup.rank * workgroup.kernel.threads + symbols.first
        self.strand = first // self.clocks.strand_lanes
        self.group = self.clocks.several + self.strand
        self.lanes: Integers = first + np.arange(symbols.threads)
        self.enabled: Flags = np.ones(symbols.threads, np.bool_)
        self._open: list[_Copy] = []
        self._groups: list[tuple[int, list[_Copy]]] = []

    def load(self, op: Op) -> Array:
        """``[threads, elements]``; zeros where masked off or out of bounds."""
        count = op.result.vector.elements
        rank: int | None = op.get("rank")
        memories = self.memories if rank is None else self.workgroup.cluster[rank].memories
        memory, active = memories[op["memory"]], self._active(op, count)
        if not op.get("around"):
            return self._read(op, memory, op["offset"], op.get("buffer"), active, required_alignment=False)
        places = self.symbols.per_thread(op["offset"])[:, None] + np.arange(count)
        outside = active & ((places < 0) | (places >= memory.elements))
        values = self._read(op, memory, op["offset"], op.get("buffer"), active & ~outside, required_alignment=False)
        values[outside] = _ANYTHING
        return values

    def store(self, op: Op, values: Array) -> None:
        target = self.memories[op["memory"]]
        index, active = self._elements(
            op, target, op["offset"], op.get("buffer"), values.shape[1], self._active(op, values.shape[1])
        )
        if op.get("valid") is None or not self.machine.globals.checked_stores:
            self._check_alignment(op, target, index, active, required=False)
        self.statistics.access(op, "store", target, index, active, self.lanes)
        if target.shadow is None:
            self.findings.add("store-to-input", op, lambda: f"'store' writes the input tensor @{target.memory.name}.")
            return
        where, lanes, stored = index[active], self._lanes(active), values[active]
        # What lacks a dim that waves or workgroups split, each of them stores.
        equal = None if target.owner is None else bits(target.data[where]) == bits(stored)
        self.workgroup.report(op, target, target.shadow.write(self._access(op, where, lanes), equal))
        self.workgroup.own(op, target, where, stored)
        self.workgroup.place(op, target, where, lambda position: int(lanes[position]), stored)

    def accumulate(self, op: Op, values: Array) -> None:
        """Add what the memory holds where ``onto`` holds, then store."""
        count, memory = values.shape[1], self.memories[op["memory"]]
        active = self._active(op, count) & self.holds(op["onto"])[:, None]
        before = self._read(op, memory, op["offset"], op.get("buffer"), active, required_alignment=False)
        self.store(op, values + before)

    def combine(self, op: Op, values: Array, expected: Array | None = None) -> Array:
        """Combine with what the memory holds, lane after lane; what it held before each, else 0."""
        target, count = self.memories[op["memory"]], values.shape[1]
        index, active = self._elements(op, target, op["offset"], None, count, self._active(op, count))
        self._check_alignment(op, target, index[:, :1], active[:, :1], required=False)
        self.statistics.access(op, "atomic", target, index, active, self.lanes)
        assert target.shadow is not None, f"atomic on the input @{target.memory.name}"
        where = index[active]
        self.workgroup.report(op, target, target.shadow.update(self._access(op, where, self._lanes(active))))
        self.workgroup.share(op, target, where)
        old = np.zeros_like(values)
        old[active] = combined(
            op["function"], target.data, where, values[active], None if expected is None else expected[active]
        )
        return old

    def load_tile(self, op: Op) -> Array:
        """``[threads, rows * columns]``, row after row."""
        memory, active = self.memories[op["memory"]], np.repeat(self.enabled[:, None], op["columns"], axis=1)
        offsets = (op["offset"] + row * op["stride"] for row in range(op["rows"]))
        rows = [self._read(op, memory, at, op.get("buffer"), active, required_alignment=False) for at in offsets]
        return np.concatenate(rows, axis=1)

    def load_matrix(self, op: Op) -> Array:
        """Matrices of 8 rows of 16 bytes, 4 bytes a thread of each, of rows or, ``transposed``, of columns; of 32
        lanes, lane 8j + r names row r of matrix j."""
        source, count = self.memories[op["memory"]], int(op["count"])
        width = 16 // source.bytes
        lane = np.arange(self.symbols.threads) % MATRIX_LOAD_LANES
        active = np.repeat((lane < 8 * count)[:, None], width, axis=1)
        index, inside = self._elements(op, source, op["offset"], op.get("buffer"), width, active)
        self._check_alignment(op, source, index, inside, required=True)
        self.statistics.access(op, "matrix load", source, index, inside, self.lanes)
        where = index[inside]
        if source.shadow is not None:
            self.workgroup.report(op, source, source.shadow.read(self._collective(op, where)))
        rows = np.zeros(index.shape, source.data.dtype)
        rows[inside] = source.data[where]
        matrices = rows.reshape(-1, MATRIX_LOAD_LANES // 8, 8, width)[:, :count]
        return distributed_matrices(matrices.swapaxes(2, 3) if op["transposed"] else matrices)

    def store_matrix(self, op: Op, registers: Array) -> None:
        """The inverse of `load_matrix`."""
        target, count = self.memories[op["memory"]], int(op["count"])
        rows = collected_matrices(registers, count)
        if op["transposed"]:
            rows = rows.reshape(-1, 8, 8).swapaxes(1, 2).reshape(-1, 8)
        lane = np.arange(self.symbols.threads) % MATRIX_LOAD_LANES
        active = np.repeat((lane < 8 * count)[:, None], rows.shape[1], axis=1)
        index, inside = self._elements(op, target, op["offset"], op.get("buffer"), rows.shape[1], active)
        self._check_alignment(op, target, index, inside, required=True)
        self.statistics.access(op, "matrix store", target, index, inside, self.lanes)
        assert target.shadow is not None, f"store_matrix into the input @{target.memory.name}"
        where = index[inside]
        self.workgroup.report(op, target, target.shadow.write(self._collective(op, where)))
        self.workgroup.place(op, target, where, lambda _: self.group, rows[inside])

    def copy_async(self, op: Op) -> None:
        source, target, count = self.memories[op["source"]], self.memories[op["memory"]], int(op["elements"])
        values = self._read(op, source, op["source_offset"], None, self._active(op, count), required_alignment=True)
        everywhere = np.repeat(self.enabled[:, None], count, axis=1)
        index, inside = self._elements(op, target, op["offset"], op.get("buffer"), count, everywhere)
        self._check_alignment(op, target, index, inside, required=True)
        self._check_lane_order(op, target, index)
        self.statistics.access(op, "async store", target, index, inside, self.lanes)
        where, lanes = index[inside], self._lanes(inside)
        assert target.shadow is not None, f"copy_async into the input @{target.memory.name}"
        access = self._access(op, where, lanes, actors=self.clocks.copies + lanes)
        self.workgroup.report(op, target, target.shadow.write(access))
        self._open.append(_Copy(op, target, where, lanes, values[inside]))

    def commit(self) -> None:
        self._groups.append((self.clocks.now, self._open))
        self._open = []

    def wait(self, pending: int) -> None:
        """Land every group but the last ``pending``."""
        finished = max(0, len(self._groups) - pending)
        if not finished:
            return
        for _, group in self._groups[:finished]:
            for copy in group:
                by = copy.lanes
                self.workgroup.place(copy.op, copy.target, copy.index, lambda at, by=by: int(by[at]), copy.values)
        last, _ = self._groups[finished - 1]
        if self.clocks.products > self.clocks.copies:
            self.clocks.complete(self.lanes, self.clocks.copies + self.lanes, last)
            self.clocks.landed[self.clocks.copies + self.lanes] = last
        del self._groups[:finished]

    def finish(self) -> None:
        """The workgroup ends: report copies into shared memory that may be another's by then."""
        for copy in (copy for group in (*(group for _, group in self._groups), self._open) for copy in group):
            self.findings.add(
                "unwaited-copy",
                copy.op,
                lambda copy=copy: f"The workgroup ends while 'copy_async' to @{copy.target.memory.name} is under way.",
            )

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
        self.statistics.access(op, "load", source, index, active, self.lanes)
        everything = bool(active.all())
        where = index.reshape(-1) if everything else index[active]
        if source.shadow is not None:
            access = self._access(op, where, self._lanes(active))
            self.workgroup.report(op, source, source.shadow.read(access))
        if source.owner is not None:
            foreign = (source.owner[where] != 0) & (source.owner[where] != self.workgroup.number + 1)
            if foreign.any():
                element = int(where[foreign][0])
                self.findings.add(
                    "race",
                    op,
                    lambda: (
                        f"'{op.name}' reads element {coordinate(source, element)} of @{source.memory.name}, "
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
        threads = self.holds(op.get("mask") or ())
        valid: Expr | None = op.get("valid")
        if valid is None:
            return np.repeat(threads[:, None], count, axis=1)
        return threads[:, None] & (np.arange(count) < self.symbols.per_thread(valid)[:, None])

    def holds(self, mask: Mask) -> Flags:
        """In which enabled threads every ``left < right`` holds."""
        threads = self.enabled
        for left, right in mask:
            threads = threads & (self.symbols.per_thread(left) < self.symbols.per_thread(right))
        return threads

    def _elements(
        self, op: Op, target: SimulatedMemory, offset: Expr, buffer: Expr | None, count: int, active: Flags
    ) -> tuple[Integers, Flags]:
        """Flat element indices ``[threads, count]`` and which of them are active and inside the memory."""
        start = self.symbols.per_thread(offset)
        index = start[:, None] + np.arange(count)
        if buffer is None and start.min() >= 0 and start.max() + count <= target.elements:  # most accesses
            return index, active
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
                count=int(wrong.sum()),
                severity="error" if required else "warning",
            )

    def _check_lane_order(self, op: Op, target: SimulatedMemory, index: Integers) -> None:
        if not self.machine.globals.async_copies.in_lane_order:
            return
        count, lanes = index.shape[1], self.machine.lanes
        waves = index[:, 0].reshape(-1, lanes)
        wrong = self.enabled & (waves != waves[:, :1] + np.arange(lanes) * count).reshape(-1)
        if wrong.any():
            thread = int(np.argmax(wrong))
            self.findings.add(
                "scattered-copy",
                op,
                lambda: (
                    f"'{op.name}' names element {int(index[thread, 0])} of @{target.memory.name}, which is not "
                    f"{count} behind that of the lane before, in {self._thread(thread)}."
                ),
                count=int(wrong.sum()),
            )

    def _access(self, op: Op, where: Integers, lanes: Integers, actors: Integers | None = None) -> Access:
        """Every element by a lane, or by an agent of it."""
        ordinal = self.findings.ordinal(op)
        return Access(self.clocks, ordinal, where, lanes if actors is None else actors, self.group, lanes)

    def _collective(self, op: Op, where: Integers) -> Access:
        """Elements of which several lanes have a part each, so that the access belongs to no single one."""
        ordinal = self.findings.ordinal(op)
        return Access(self.clocks, ordinal, where, self.group, self.group, self.lanes, self.clocks.common(self.strand))

    def _lanes(self, active: Flags) -> Integers:
        """The lane of every active element."""
        return self.lanes[np.nonzero(active)[0]]

    def _thread(self, thread: int) -> str:
        """Words for one thread."""
        return self.clocks.words(int(self.lanes[thread]))
