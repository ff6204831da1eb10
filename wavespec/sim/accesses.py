"""Memory operations in, registers and findings out: loads, stores and copies of all lanes of a strand at once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from wavespec.ir.expr import Expr
from wavespec.ir.kernel import Op
from wavespec.ir.thread import Mask
from wavespec.sim.elements import Array, Flags, Integers, all_of, bits, combined, some
from wavespec.sim.fragments import MATRIX_LOAD_LANES, collected_matrices, distributed_matrices
from wavespec.sim.memories import SimulatedMemory
from wavespec.sim.shadow import Access
from wavespec.sim.symbols import SymbolValues
from wavespec.sim.touched import Rows, Touched
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

    ``enabled``: the lanes that take part in what is executed now, ``[threads]``; ``everybody``: whether all do.
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
        self._rows = Rows(self.lanes)
        self.enable(np.ones(symbols.threads, np.bool_))
        self._open: list[_Copy] = []
        self._taken: set[str] = set()
        """Memories whose bytes others have by now."""
        self._groups: list[tuple[int, list[_Copy]]] = []

    def enable(self, lanes: Flags) -> None:
        """From here on these lanes take part."""
        self.enabled, self.everybody = lanes, all_of(lanes)

    def load(self, op: Op) -> Array:
        """``[threads, elements]``; zeros where masked off or out of bounds, anything where that is around a row."""
        count = op.result.vector.elements
        rank: int | None = op.get("rank")
        memories = self.memories if rank is None else self.workgroup.cluster[rank].memories
        memory, active = memories[op["memory"]], self._active(op, count)
        if op.get("around"):
            return self._read_around(op, memory, op["offset"], count, active, required=False)
        if active is not None and memory.memory.space == "global" and not some(active):  # most of copies by few lanes
            self.statistics.access_of_nobody("load", memory, count)
            return np.zeros(active.shape, memory.data.dtype)
        return self._read(op, memory, op["offset"], op.get("buffer"), count, active, required_alignment=False)

    def store(self, op: Op, values: Array) -> None:
        target, count = self.memories[op["memory"]], values.shape[1]
        for name in target.memory.over:
            self._take(op, self.memories[name])
        touched = self._touched(op, target, op["offset"], op.get("buffer"), count, self._active(op, count))
        if op.get("valid") is None or not self.machine.globals.checked_stores:
            self._check_alignment(op, target, touched, required=False)
        self.statistics.access(op, "store", target, touched, self.lanes)
        if target.shadow is None:
            self.findings.add("store-to-input", op, lambda: f"'store' writes the input tensor @{target.memory.name}.")
            return
        where, lanes, stored = touched.where, touched.lanes, touched.of(values)

        def equal() -> Flags:
            return bits(target.data[where]) == bits(stored)

        # What lacks a dim that waves or workgroups split, each of them stores.
        known = None if target.owner is None else equal
        self.workgroup.report(op, target, target.shadow.write(self._access(op, touched), known))
        self.workgroup.own(op, target, where, stored)
        self.workgroup.place(op, target, where, lambda position: int(lanes[position]), stored)

    def _take(self, op: Op, below: SimulatedMemory) -> None:
        """What this wave writes lies over a memory, all of which is over by then."""
        if below.memory.name not in self._taken and below.shadow is not None:
            self._taken.add(below.memory.name)
            lane, places = int(self.lanes[0]), np.arange(len(below.data))
            access = Access(self.clocks, self.findings.ordinal(op), places, lane, self.group, lane)
            self.workgroup.report(op, below, below.shadow.take(access))

    def accumulate(self, op: Op, values: Array) -> None:
        """Add what the memory holds where ``onto`` holds, then store."""
        count, memory = values.shape[1], self.memories[op["memory"]]
        active = self._rows.active(self.holds((*(op.get("mask") or ()), *op["onto"])), count, self._valid(op))
        before = self._read(op, memory, op["offset"], op.get("buffer"), count, active, required_alignment=False)
        self.store(op, values + before)

    def combine(self, op: Op, values: Array, expected: Array | None = None) -> Array:
        """Combine with what the memory holds, lane after lane; what it held before each, else 0."""
        target, count = self.memories[op["memory"]], values.shape[1]
        touched = self._touched(op, target, op["offset"], None, count, self._active(op, count))
        self.statistics.access(op, "atomic", target, touched, self.lanes)
        assert target.shadow is not None, f"atomic on the input @{target.memory.name}"
        where = touched.where
        self.workgroup.report(op, target, target.shadow.update(self._access(op, touched)))
        self.workgroup.share(op, target, where)
        wanted = None if expected is None else touched.of(expected)
        return touched.spread(combined(op["function"], target.data, where, touched.of(values), wanted))

    def load_tile(self, op: Op) -> Array:
        """``[threads, rows * columns]``, row after row."""
        memory, count = self.memories[op["memory"]], op["columns"]
        there = self.holds(op["mask"]) if op.get("source") else np.zeros_like(self.enabled)
        active = self._rows.active(self.enabled & ~there, count)
        offsets = (op["offset"] + row * op["stride"] for row in range(op["rows"]))
        rows = [self._read(op, memory, at, op.get("buffer"), count, active, required_alignment=False) for at in offsets]
        staged = np.concatenate(rows, axis=1)
        if not there.any():
            return staged
        source, active = self.memories[op["source"]], self._rows.active(there, count)
        offsets = (op["source_offset"] + row * op["source_stride"] for row in range(op["rows"]))
        rows = [self._read(op, source, at, None, count, active, required_alignment=False) for at in offsets]
        return np.where(there[:, None], np.concatenate(rows, axis=1), staged)

    def load_matrix(self, op: Op) -> Array:
        """Matrices of 8 rows of 16 bytes, 4 bytes a thread of each, of rows or, ``transposed``, of columns; of 32
        lanes, lane 8j + r names row r of matrix j."""
        source, count = self.memories[op["memory"]], int(op["count"])
        width = 16 // source.bytes
        touched = self._matrix_rows(op, source, count, width)
        self._check_alignment(op, source, touched, required=True)
        self.statistics.access(op, "matrix load", source, touched, self.lanes)
        if source.shadow is not None:
            self.workgroup.report(op, source, source.shadow.read(self._collective(op, touched.where)))
        rows = touched.spread(source.data[touched.where])
        matrices = rows.reshape(-1, MATRIX_LOAD_LANES // 8, 8, width)[:, :count]
        return distributed_matrices(matrices.swapaxes(2, 3) if op["transposed"] else matrices)

    def store_matrix(self, op: Op, registers: Array) -> None:
        """The inverse of `load_matrix`."""
        target, count = self.memories[op["memory"]], int(op["count"])
        rows = collected_matrices(registers, count)
        if op["transposed"]:
            rows = rows.reshape(-1, 8, 8).swapaxes(1, 2).reshape(-1, 8)
        touched = self._matrix_rows(op, target, count, rows.shape[1])
        self._check_alignment(op, target, touched, required=True)
        self.statistics.access(op, "matrix store", target, touched, self.lanes)
        assert target.shadow is not None, f"store_matrix into the input @{target.memory.name}"
        self.workgroup.report(op, target, target.shadow.write(self._collective(op, touched.where)))
        self.workgroup.place(op, target, touched.where, lambda _: self.group, touched.of(rows))

    def copy_async(self, op: Op) -> None:
        source, target, count = self.memories[op["source"]], self.memories[op["memory"]], int(op["elements"])
        active = self._active(op, count)
        if op.get("around"):
            values = self._read_around(op, source, op["source_offset"], count, active, required=True)
        else:
            values = self._read(op, source, op["source_offset"], None, count, active, required_alignment=True)
        everywhere = self._rows.active(self.enabled, count)
        touched = self._touched(op, target, op["offset"], op.get("buffer"), count, everywhere)
        self._check_alignment(op, target, touched, required=True)
        self._check_lane_order(op, target, touched)
        self.statistics.access(op, "async store", target, touched, self.lanes)
        assert target.shadow is not None, f"copy_async into the input @{target.memory.name}"
        access = self._access(op, touched, actors=self.clocks.copies + touched.lanes)
        self.workgroup.report(op, target, target.shadow.write(access))
        self._open.append(_Copy(op, target, touched.where, touched.lanes, touched.of(values)))

    def commit(self) -> None:
        self._groups.append((self.clocks.now, self._open))
        self._open = []

    def wait(self, pending: int) -> None:
        """Land every group but the last ``pending``."""
        finished = max(0, len(self._groups) - pending)
        if not finished:
            return
        self._place(copy for _, group in self._groups[:finished] for copy in group)
        last, _ = self._groups[finished - 1]
        if self.clocks.products > self.clocks.copies:
            self.clocks.complete(self.lanes, self.clocks.copies + self.lanes, last)
            self.clocks.landed[self.clocks.copies + self.lanes] = last
        del self._groups[:finished]

    def land(self) -> None:
        """Land everything for those who wait for a signal; these lanes have not waited themselves."""
        self._place(copy for group in (*(group for _, group in self._groups), self._open) for copy in group)
        self._groups, self._open = [], []
        self.clocks.landed[self.clocks.copies + self.lanes] = self.clocks.now

    def _place(self, copies: Iterable[_Copy]) -> None:
        for copy in copies:
            by = copy.lanes
            self.workgroup.place(copy.op, copy.target, copy.index, lambda at, by=by: int(by[at]), copy.values)

    def finish(self) -> None:
        """The workgroup ends: report copies into shared memory that may be another's by then."""
        for copy in (copy for group in (*(group for _, group in self._groups), self._open) for copy in group):
            self.findings.add(
                "unwaited-copy",
                copy.op,
                lambda copy=copy: f"The workgroup ends while 'copy_async' to @{copy.target.memory.name} is under way.",
            )

    def _read_around(
        self, op: Op, source: SimulatedMemory, offset: Expr, count: int, active: Flags | None, *, required: bool
    ) -> Array:
        """Anything where an access sticks out of the tensor, or is masked off; ``required``: has to be aligned."""
        places = self._rows.index(self.symbols.per_thread(offset), count)
        inside = (places >= 0) & (places < source.elements)
        active = inside if active is None else active & inside
        values = self._read(op, source, offset, None, count, active, required_alignment=required)
        values[~active] = _ANYTHING
        return values

    def _read(
        self,
        op: Op,
        source: SimulatedMemory,
        offset: Expr,
        buffer: Expr | None,
        count: int,
        active: Flags | None,
        *,
        required_alignment: bool,
    ) -> Array:
        touched = self._touched(op, source, offset, buffer, count, active)
        self._check_alignment(op, source, touched, required=required_alignment)
        self.statistics.access(op, "load", source, touched, self.lanes)
        where = touched.where
        if source.shadow is not None:
            self.workgroup.report(op, source, source.shadow.read(self._access(op, touched)))
        if source.owner is not None:
            owner = source.owner[where]
            foreign = (owner != 0) & (owner != self.workgroup.number + 1)
            if some(foreign):
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
        return touched.spread(source.data[where])

    def _active(self, op: Op, count: int) -> Flags | None:
        """Which elements of which threads exist, ``[threads, count]``: mask, ``valid``, ``front``; None: all."""
        active = self._rows.active(self.holds(op.get("mask") or ()), count, self._valid(op))
        front: Expr | None = op.get("front")
        if front is None:
            return active
        there = np.arange(count) >= np.broadcast_to(self.symbols.value(front), self.enabled.shape)[:, None]
        return there if active is None else there & active

    def _valid(self, op: Op) -> Integers | int | None:
        """How many elements of each thread exist, where that is not all of them."""
        valid: Expr | None = op.get("valid")
        return None if valid is None else self.symbols.value(valid)

    def holds(self, mask: Mask) -> Flags:
        """In which enabled threads every ``left < right`` holds."""
        threads = self.enabled
        for left, right in mask:
            threads = threads & (self.symbols.value(left) < self.symbols.value(right))
        return threads

    def _touched(
        self, op: Op, target: SimulatedMemory, offset: Expr, buffer: Expr | None, count: int, active: Flags | None
    ) -> Touched:
        """The elements of each thread, ``count`` from ``offset`` on, that are active and inside the memory."""
        start, copy = self.symbols.per_thread(offset), 0 if buffer is None else self.symbols.value(buffer)
        inside = start.min() >= 0 and start.max() + count <= target.elements
        if inside and isinstance(copy, int) and 0 <= copy < target.memory.buffers:  # most accesses
            return self._rows.touched(start + copy * target.elements if copy else start, count, active)
        copies = np.broadcast_to(copy, start.shape)
        outside = self._outside(op, target, start, copies, count, active)
        if outside is not None:
            active = ~outside if active is None else active & ~outside
        return self._rows.touched(start + copies * target.elements, count, active)

    def _outside(
        self, op: Op, target: SimulatedMemory, start: Integers, copy: Integers, count: int, active: Flags | None
    ) -> Flags | None:
        """Report the active elements that a memory does not have, ``[threads, count]``; None: it has all."""
        index = self._rows.index(start, count)
        wrong_copy = (copy < 0) | (copy >= target.memory.buffers)
        outside = (index < 0) | (index >= target.elements) | wrong_copy[:, None]
        if active is not None:
            outside &= active
        if not some(outside):
            return None
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
        return outside

    def _check_alignment(self, op: Op, target: SimulatedMemory, touched: Touched, *, required: bool) -> None:
        if target.memory.space == "private" or (self.machine.globals.any_alignment and not required):
            return
        space = self.machine.shared if target.memory.space == "shared" else self.machine.globals
        width, start = touched.count * target.bytes, touched.start
        piece = max(target.bytes, min(space.access_bytes, width & -width))
        if target.memory.space == "global" and self.machine.globals.alignment_bytes:
            piece = min(piece, self.machine.globals.alignment_bytes)
        # Pieces are powers of two: all are multiples of one where no lane has a lower bit.
        if int(np.bitwise_or.reduce(start)) * target.bytes % piece == 0:
            return
        # A plain access that sticks out of its row is done element by element.
        whole = touched.some if required else touched.whole
        wrong = start * target.bytes % piece != 0
        if whole is not None:
            wrong &= whole
        if some(wrong):
            thread = int(np.argmax(wrong))
            self.findings.add(
                "misaligned",
                op,
                lambda: (
                    f"'{op.name}' moves {piece} bytes at byte {int(start[thread]) * target.bytes} of "
                    f"@{target.memory.name}, which is not a multiple of {piece}, in {self._thread(thread)}."
                ),
                count=int(wrong.sum()),
                severity="error" if required else "warning",
            )

    def _check_lane_order(self, op: Op, target: SimulatedMemory, touched: Touched) -> None:
        if not self.machine.globals.async_copies.in_lane_order:
            return
        count, lanes = touched.count, self.machine.lanes
        waves = touched.start.reshape(-1, lanes)
        wrong = self.enabled & (waves != waves[:, :1] + np.arange(lanes) * count).reshape(-1)
        if some(wrong):
            thread = int(np.argmax(wrong))
            self.findings.add(
                "scattered-copy",
                op,
                lambda: (
                    f"'{op.name}' names element {int(touched.start[thread])} of @{target.memory.name}, which is not "
                    f"{count} behind that of the lane before, in {self._thread(thread)}."
                ),
                count=int(wrong.sum()),
            )

    def _access(self, op: Op, touched: Touched, actors: Integers | None = None) -> Access:
        """Every element by a lane, or by an agent of it."""
        ordinal, lanes = self.findings.ordinal(op), touched.lanes
        return Access(self.clocks, ordinal, touched.where, lanes if actors is None else actors, self.group, lanes)

    def _matrix_rows(self, op: Op, target: SimulatedMemory, count: int, width: int) -> Touched:
        """The rows of ``count`` matrices, which the first lanes of each 32 name."""
        named = np.arange(self.symbols.threads) % MATRIX_LOAD_LANES < 8 * count
        return self._touched(op, target, op["offset"], op.get("buffer"), width, self._rows.active(named, width))

    def _collective(self, op: Op, where: Integers) -> Access:
        """Elements of which several lanes have a part each, so that the access belongs to no single one."""
        ordinal = self.findings.ordinal(op)
        return Access(self.clocks, ordinal, where, self.group, self.group, self.lanes, self.clocks.common(self.strand))

    def _thread(self, thread: int) -> str:
        """Words for one thread."""
        return self.clocks.words(int(self.lanes[thread]))
