"""Bulk copies, bulk stores and sends of one strand: what goes to and from shared memory beside the lanes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial

import numpy as np

from wavespec.ir.expr import Expr
from wavespec.ir.kernel import Op
from wavespec.ir.thread import row_axis
from wavespec.sim.accesses import MemoryUnit
from wavespec.sim.clocks import Knowledge
from wavespec.sim.elements import Array, Flags, Integers, rounded_to
from wavespec.sim.memories import SimulatedMemory
from wavespec.sim.shadow import Access
from wavespec.sim.signals import Signal
from wavespec.sim.tiles import box_elements

_SHARED_ALIGNMENT, _GLOBAL_ALIGNMENT = 128, 16
"""Bytes; https://docs.nvidia.com/cuda/parallel-thread-execution/#data-movement-and-conversion-instructions-bulk-copy"""


class BulkUnit:
    """The copy engine as one strand uses it: a copy per lane that takes part."""

    def __init__(self, memory: MemoryUnit) -> None:
        self.memory, self.workgroup, self.clocks = memory, memory.workgroup, memory.clocks
        self._open: dict[int, list[Op]] = {}
        self._groups: dict[int, list[tuple[int, list[Op]]]] = {}

    def copy(self, op: Op) -> None:
        """Issue copies to shared memory; they land, and are counted on their signal, some time later."""
        for thread in np.nonzero(self.memory.enabled)[0]:
            self._copy(op, int(thread))

    def store(self, op: Op) -> None:
        """Issue copies to a tensor; shared memory is being read until they are waited for."""
        for thread in np.nonzero(self.memory.enabled)[0]:
            self._store(op, int(thread))

    def send(self, op: Op, values: Array) -> None:
        """Registers of each lane, to another workgroup; they land, and are counted there, some time later.

        Who waits for them knows what the lane knew.  PTX says of ``st.async`` that its completion has release semantics
        at the scope of the cluster
        (https://docs.nvidia.com/cuda/parallel-thread-execution/#data-movement-and-conversion-instructions-st-async);
        that a completion orders no earlier instruction of its thread it says of bulk copies alone
        (https://docs.nvidia.com/cuda/parallel-thread-execution/#program-order-async-operations).
        """
        for thread in np.nonzero(self.memory.holds(op["mask"]))[0]:
            places = (op[name] for name in ("offset", "receiver", "index"))
            start, receiver, number = (int(self.memory.symbols.per_thread(place)[thread]) for place in places)
            workgroup = self.workgroup.cluster[receiver]
            target, signal = workgroup.memories[op["memory"]], workgroup.signals[op["signal"]][number]
            where: Integers = np.arange(start, start + values.shape[1], dtype=np.int64)
            lane, sent = int(self.memory.lanes[thread]), values[thread]
            self._report_shared(op, target, where, lane, self.clocks.landings + signal.number, write=True)
            known = self.clocks.released(self.memory.lanes[thread : thread + 1])
            land = partial(self._land, op, target, where, sent, signal, self.clocks.now, known)
            self.workgroup.landing.append(land)

    def commit(self) -> None:
        """Close a group of every lane that takes part."""
        for lane in self.memory.lanes[self.memory.enabled]:
            group = (self.clocks.now, self._open.pop(int(lane), []))
            self._groups.setdefault(int(lane), []).append(group)

    def wait(self, pending: int) -> None:
        """All groups of a lane but the last ``pending`` have been read."""
        for lane in self.memory.lanes[self.memory.enabled]:
            groups = self._groups.get(int(lane), [])
            finished = max(0, len(groups) - pending)
            if finished:
                step, _ = groups[finished - 1]
                self.clocks.complete(np.array([lane]), self.clocks.stores + int(lane), step)
                del groups[:finished]

    def finish(self) -> None:
        """The workgroup ends: report stores whose shared memory may be gone before it was read."""
        groups = [group for lane in self._groups.values() for _, group in lane]
        for op in (op for group in (*groups, *self._open.values()) for op in group):
            self.memory.findings.add(
                "unwaited-copy",
                op,
                lambda op=op: f"The workgroup ends while 'bulk_store' may still be reading @{op['memory']}.",
            )

    def _copy(self, op: Op, thread: int) -> None:
        source, target = self.memory.memories[op["source"]], self.memory.memories[op["memory"]]
        lane, signals = int(self.memory.lanes[thread]), self.workgroup.signals[op["signal"]]
        number = int(self.memory.symbols.per_thread(op["index"])[thread])
        if not 0 <= number < len(signals):
            text = f"'bulk_copy' names @{op['signal']}[{number}], of which there are {len(signals)}."
            self.memory.findings.add("out-of-bounds", op, lambda: text)
            return
        where, outside = self._shared_box(op, target, thread)
        elements, inside = self._tensor_box(op, source, thread)
        if (valid := op.get("valid")) is not None:
            rows, first = np.arange(len(elements)) // op["box"][-1], op["corner"][row_axis(op["box"])]
            (count, before) = self._numbers((valid, first), thread)
            inside &= (rows < count) & (before >= 0)
        values = np.zeros(len(elements), source.data.dtype)
        values[inside] = source.data[elements[inside]]
        if op.get("kept_bits"):
            values = rounded_to(values, op["kept_bits"])
        self.memory.statistics.bulk("bulk load", source, int(inside.sum()))
        where, values = where[~outside], values[~outside]
        for workgroup in self.workgroup.cluster if op.get("everywhere") else [self.workgroup]:
            target, signal = workgroup.memories[op["memory"]], workgroup.signals[op["signal"]][number]
            self._report_shared(op, target, where, lane, self.clocks.landings + signal.number, write=True)
            self.memory.statistics.bulk("bulk store", target, len(elements))
            self.workgroup.landing.append(partial(self._land, op, target, where, values, signal, self.clocks.now))

    def _land(
        self,
        op: Op,
        target: SimulatedMemory,
        where: Integers,
        values: Array,
        signal: Signal,
        issued: int,
        known: Knowledge | None = None,
    ) -> None:
        target.data[where] = values
        count = math.prod(op["box"]) if op.get("box") else len(where)  # what lies beyond a tensor counts as well
        signal.land(op, target.memory.bytes_of(count), issued, known)

    def _store(self, op: Op, thread: int) -> None:
        source, target = self.memory.memories[op["memory"]], self.memory.memories[op["target"]]
        lane = int(self.memory.lanes[thread])
        where, outside = self._shared_box(op, source, thread)
        elements, inside = self._tensor_box(op, target, thread)
        inside &= ~outside
        before = min(self._numbers(op["corner"], thread))
        if before < 0:  # an illegal instruction on an H100; beyond the end it leaves out
            text = (
                f"'bulk_store' begins at {before} of @{target.memory.name}; the machine stores from no place before it."
            )
            self.memory.findings.add("out-of-bounds", op, lambda: text)
        self._report_shared(op, source, where[inside], lane, self.clocks.stores + lane, write=False)
        self.memory.statistics.bulk("bulk load", source, int(inside.sum()))
        self.memory.statistics.bulk("bulk store", target, int(inside.sum()))
        self._open.setdefault(lane, []).append(op)
        if target.shadow is None:
            text = f"'bulk_store' writes the input tensor @{target.memory.name}."
            self.memory.findings.add("store-to-input", op, lambda: text)
            return
        index, values, outward = elements[inside], source.data[where[inside]], self.clocks.outward
        knowledge = self.clocks.of_lane(lane)
        access = Access(self.clocks, self._ordinal(op), index, outward, outward, lane, knowledge)
        self.workgroup.report(op, target, target.shadow.write(access))
        self.workgroup.own(op, target, index, values)
        target.data[index] = values

    def _shared_box(self, op: Op, memory: SimulatedMemory, thread: int) -> tuple[Integers, Flags]:
        """Flat elements of shared memory, row after row, and which of them do not exist."""
        offset, buffer = (int(self.memory.symbols.per_thread(op[name])[thread]) for name in ("offset", "buffer"))
        start = buffer * memory.elements + offset
        self._check_alignment(op, memory, memory.memory.bytes_of(start), _SHARED_ALIGNMENT)
        where = box_elements(memory.memory, start, op["box"])
        first = buffer * memory.elements
        outside = (where < first) | (where >= first + memory.elements) | (where < 0) | (where >= len(memory.data))
        if outside.any():
            element = int(where[outside][0]) - first
            self.memory.findings.add(
                "out-of-bounds",
                op,
                lambda: (
                    f"'{op.name}' touches element {element} of buffer {buffer} of @{memory.memory.name}, which has "
                    f"{memory.elements} elements in {memory.memory.buffers} buffers."
                ),
                count=int(outside.sum()),
            )
        return where, outside

    def _tensor_box(self, op: Op, memory: SimulatedMemory, thread: int) -> tuple[Integers, Flags]:
        """Flat elements of a tensor, row after row, and which of them exist."""
        box: tuple[int, ...] = op["box"]
        corner = self._numbers(op["corner"], thread)
        shape = self._numbers(op["view"], thread) if op.get("view") else memory.shape
        strides = self._strides(op, memory, shape, thread)
        if op.get("windows"):
            places = self._windows(op, corner, thread)
        else:
            axes = [[-1 if other == axis else 1 for other in range(len(box))] for axis in range(len(box))]
            within = [np.arange(extent) for extent in box]
            if (step := op.get("row_step") or 1) > 1:
                at = row_axis(box)
                within[at] = within[at].reshape(-1, step).T.reshape(-1)
            starts = zip(corner, within, axes, strict=True)
            places = [(start + row).reshape(axis) for start, row, axis in starts]
        start = 0 if memory.memory.start is None else self._numbers((memory.memory.start,), thread)[0]
        index, inside = np.full(box, start, np.int64), np.ones(box, np.bool_)
        for at, size, stride in zip(places, shape, strides, strict=True):
            index = index + at * stride
            inside = inside & (at >= 0) & (at < size)
        return index.reshape(-1), inside.reshape(-1)

    def _strides(self, op: Op, memory: SimulatedMemory, shape: Sequence[int], thread: int) -> tuple[int, ...]:
        """Elements from one place to the next along each dim, all but the last in units that the machine copies."""
        tensor = memory.memory
        if tensor.start is not None:
            start, *strides = self._numbers((tensor.start, *tensor.strides), thread)
            for place in (start, *strides[:-1]):
                self._check_alignment(op, memory, tensor.bytes_of(place), _GLOBAL_ALIGNMENT)
            return tuple(strides)
        self._check_alignment(op, memory, tensor.bytes_of(shape[-1]), _GLOBAL_ALIGNMENT)
        return tuple(math.prod(shape[dim + 1 :]) for dim in range(len(shape)))

    def _windows(self, op: Op, corner: Sequence[int], thread: int) -> list[Integers]:
        """Places along the dims of a tensor of a box of windows, of rows and columns."""
        rows, columns = op["box"]
        firsts, steps, counts, _ = zip(*op["windows"], strict=True)
        counts = self._numbers(counts, thread)
        image, *starts, last = corner
        number = image
        for start, first, step, count in zip(starts, firsts, steps, counts, strict=True):
            if (start - first) % step:
                text = f"'{op.name}' starts between two windows, at {start}: they start at {first}, every {step}."
                self.memory.findings.add("misaligned", op, lambda text=text: text)
            number = number * count + (start - first) // step
        numbers, places = number + np.arange(rows)[:, None], list[Integers]()
        offsets = self._numbers(op["offsets"], thread)
        for first, step, count, offset in reversed([*zip(firsts, steps, counts, offsets, strict=True)]):
            places.insert(0, numbers % count * step + first + offset)
            numbers = numbers // count
        return [numbers, *places, last + np.arange(columns)[None, :]]

    def _numbers(self, exprs: Sequence[Expr], thread: int) -> tuple[int, ...]:
        return tuple(int(self.memory.symbols.per_thread(expr)[thread]) for expr in exprs)

    def _check_alignment(self, op: Op, memory: SimulatedMemory, place: int, needed: int) -> None:
        if place % needed:
            text = f"'{op.name}' moves a row at byte {place} of @{memory.memory.name}, not a multiple of {needed}."
            self.memory.findings.add("misaligned", op, lambda: text)

    def _report_shared(
        self, op: Op, memory: SimulatedMemory, where: Integers, lane: int, agent: int, *, write: bool
    ) -> None:
        assert memory.shadow is not None
        knowledge = self.clocks.of_lane(lane)
        access = Access(self.clocks, self._ordinal(op), where, agent, agent, lane, knowledge, fenced=True)
        self.workgroup.report(op, memory, memory.shadow.write(access) if write else memory.shadow.read(access))

    def _ordinal(self, op: Op) -> int:
        return self.memory.findings.ordinal(op)
