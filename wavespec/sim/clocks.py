"""Synchronisation in, knowledge out: which steps of which actor are over before what a lane does next.

An *actor* is whoever touches memory: a lane, or an agent that works beside it (its asynchronous copies, the matrix unit
of its wave, the bulk copies counted on a signal).  All waves take their steps by one clock, and an access is labelled
with its actor and step.  ``known[lane, actor]`` is the last step of the actor that is over for the lane, by way of
barriers, signals and waits: an access happens before what the lane does next exactly if its step is not later.
``fenced`` is the same for what lanes wrote and then made visible to matrix units and bulk copies.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from wavespec.ir.kernel import Kernel
from wavespec.ir.thread_ops import BULK_COPY, BULK_STORE, COPY_ASYNC, MMA_ASYNC, SEND
from wavespec.sim.elements import Integers

Steps = npt.NDArray[np.int32]

_ALWAYS = np.iinfo(np.int32).max
_BESIDE = BULK_COPY | BULK_STORE | SEND | MMA_ASYNC


@dataclass(frozen=True, slots=True)
class Knowledge:
    """What a lane knows, or what several know together: the last step of every actor, ``[actors]``."""

    known: Steps
    fenced: Steps

    def joined(self, other: Knowledge | None) -> Knowledge:
        if other is None:
            return self
        return Knowledge(np.maximum(self.known, other.known), np.maximum(self.fenced, other.fenced))


class Clocks:
    """The knowledge of all lanes of the workgroups that run together, one after another; ``strand_lanes`` consecutive
    ones run in step.

    Actors are numbered, the lanes first.  ``several + s`` is more than one lane of strand ``s``, ``copies + lane`` its
    asynchronous copies, ``products + wave`` the matrix unit, ``stores + lane`` its bulk stores as readers of shared
    memory, ``outward`` bulk stores as writers of tensors (nothing in a kernel waits for those), ``landings + i``
    the bulk copies counted on signal ``i``.  For ``phases + i`` the entries count complete phases of signal ``i``.
    """

    def __init__(self, kernel: Kernel, workgroups: Sequence[int], strand_lanes: int, start: int) -> None:
        """Everything up to step ``start`` is over for everybody; ``workgroups``: their numbers, for words."""
        ops = list(kernel.walk())
        copies, stores, beside = (any(op.is_(which) for op in ops) for which in (COPY_ASYNC, BULK_STORE, _BESIDE))
        signals = sum(memory.buffers for memory in kernel.memories if memory.space == "signal") * len(workgroups)
        self.kernel, self.workgroups = kernel, tuple(workgroups)
        self.lanes, self.strand_lanes = kernel.threads * len(workgroups), strand_lanes
        self.several = self.lanes
        self.copies = self.several + self.lanes // strand_lanes
        self.products = self.copies + (self.lanes if copies else 0)
        self.stores = self.products + self.lanes // kernel.lanes
        self.outward = self.stores + (self.lanes if stores else 0)
        self.landings = self.outward + 1
        self.phases = self.landings + signals
        actors = self.phases + signals
        self.now = start
        own = np.arange(self.lanes)
        self.known: Steps = np.full((self.lanes, actors), start, np.int32)
        self.known[own, own] = _ALWAYS
        self.known[:, self.phases :] = 0
        # Only what lanes wrote needs a fence, and only where something beside them reads or overwrites it.
        self.fenced: Steps = np.full((self.lanes, actors if beside else 0), start, np.int32)
        self.fenced[:, self.products :] = _ALWAYS
        self.known_to_all: Steps = np.full(actors, start, np.int32)
        self.landed: Steps = np.full(actors, _ALWAYS, np.int32)
        """Up to which step the writes of an actor are done, whoever knows of it."""
        self.landed[self.copies : self.products] = self.landed[self.landings : self.phases] = start
        if self.lanes == 1:
            self.known_to_all[: self.copies] = _ALWAYS
        self._common: dict[int, Knowledge] = {}

    def step(self) -> None:
        """The next operation of a wave begins."""
        self.now += 1

    def released(self, lanes: Integers, *, landed: bool = False) -> Knowledge:
        """What these lanes know together, their own steps up to now included, and their copies that have ``landed``."""
        rows = _rows(lanes)
        known = self.known[rows].max(axis=0)
        known[lanes] = self.now
        if landed and self.products > self.copies:
            known[self.copies + lanes] = self.now
        return Knowledge(known, self.fenced[rows].max(axis=0))

    def landing(self, signal: int, step: int) -> Knowledge:
        """That the bulk copies issued up to a step, and counted on a signal, are done."""
        known = np.zeros_like(self.known[0])
        known[self.landings + signal] = step
        return Knowledge(known, np.zeros_like(self.fenced[0]))

    def acquire(self, lanes: Integers, knowledge: Knowledge) -> None:
        """These lanes learn what somebody released."""
        rows = _rows(lanes)
        for table, learned in ((self.known, knowledge.known), (self.fenced, knowledge.fenced)):
            known = table[rows]
            table[rows] = np.maximum(known, learned, out=known)
        self._changed(lanes)

    def barrier(self, lanes: Integers) -> None:
        """These lanes meet."""
        knowledge = self.released(lanes)
        self.acquire(lanes, knowledge)
        if len(lanes) == self.lanes:
            self.known_to_all = np.maximum(self.known_to_all, knowledge.known)
            self.known_to_all[self.several : self.copies] = self.now

    def complete(self, lanes: Integers, actors: Integers | int, step: int) -> None:
        """These lanes have waited for one actor (or one each) up to a step."""
        self.known[lanes, actors] = np.maximum(self.known[lanes, actors], step)
        self._common.clear()

    def fence(self, lanes: Integers) -> None:
        """What these lanes wrote, and what they waited for of their own copies, is visible to everything."""
        self.fenced[lanes, lanes] = self.now
        if self.products > self.copies:
            self.fenced[lanes, self.copies + lanes] = self.known[lanes, self.copies + lanes]
        self._changed(lanes)

    def see_landed(self, lanes: Integers) -> None:
        """The copies of any lane that these know to have landed are visible to matrix units and bulk copies."""
        rows, copies = _rows(lanes), slice(self.copies, self.products)
        if self.fenced.shape[1]:
            self.fenced[rows, copies] = np.maximum(self.fenced[rows, copies], self.known[rows, copies])
        self._common.clear()

    def common(self, strand: int) -> Knowledge:
        """What every lane of a strand knows."""
        found = self._common.get(strand)
        if found is None:
            lanes = slice(strand * self.strand_lanes, (strand + 1) * self.strand_lanes)
            found = Knowledge(self.known[lanes].min(axis=0), self.fenced[lanes].min(axis=0))
            self._common[strand] = found
        return found

    def of_lane(self, lane: int) -> Knowledge:
        """What one lane knows."""
        return Knowledge(self.known[lane], self.fenced[lane])

    def words(self, actor: int) -> str:
        """Words for an actor."""
        if actor < self.several:
            lane = f"lane {actor % self.kernel.lanes} of " if self.kernel.threads > 1 else ""
            return lane + self._wave(actor // self.kernel.lanes)
        if actor < self.copies:
            return f"several lanes of {self._strand(actor - self.several)}"
        if actor < self.products:
            return f"an asynchronous copy of {self.words(actor - self.copies)}"
        if actor < self.stores:
            return f"the matrix unit of {self._wave(actor - self.products)}"
        if actor < self.outward:
            return f"a bulk store of {self.words(actor - self.stores)}"
        return "a bulk store" if actor == self.outward else "a bulk copy"

    def _strand(self, strand: int) -> str:
        first = strand * self.strand_lanes // self.kernel.lanes
        if self.strand_lanes == self.kernel.lanes:
            return self._wave(first)
        return f"workgroup {self.workgroups[first * self.kernel.lanes // self.kernel.threads]}"

    def _wave(self, wave: int) -> str:
        rank, wave = divmod(wave, self.kernel.threads // self.kernel.lanes)
        return f"{f'wave {wave} of ' if self.kernel.threads > 1 else ''}workgroup {self.workgroups[rank]}"

    def _changed(self, lanes: Integers) -> None:
        """Several lanes of a strand are known as far as the least known of them."""
        rows = _rows(lanes)
        for table in (self.known, self.fenced):
            if table.shape[1]:
                of_lanes = table[rows, : self.lanes].reshape(len(lanes), -1, self.strand_lanes)
                table[rows, self.several : self.copies] = of_lanes.min(axis=2)
        self._common.clear()


def _rows(lanes: Integers) -> slice | Integers:
    """Rows of a table, in rising order: as a slice, of which numpy makes no copy, where they are neighbours."""
    first, last = int(lanes[0]), int(lanes[-1])
    return slice(first, last + 1) if last - first == len(lanes) - 1 else lanes
