"""Accesses of one memory in, conflicts out: who wrote and read each element last, and who can know of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from wavespec.sim.clocks import Clocks, Knowledge, Steps
from wavespec.sim.elements import Flags, Integers

ConflictKind = Literal["race", "unwritten-read", "unwaited-copy", "unfenced-access"]


@dataclass(frozen=True, slots=True)
class Access:
    """One operation on some elements of one memory: ``index``, and who did it, element by element.

    ``actors``: recorded as reader or writer; a number where all elements have the same.  ``group``: what
    stands for several of the actors together.  ``lanes``: whose knowledge counts; or ``knowledge``, for all elements.
    ``fenced``: whether what lanes wrote has to be fenced for it: it is done beside the lanes.
    """

    clocks: Clocks
    op: int
    index: Integers
    actors: Integers | int
    group: int
    lanes: Integers | int
    knowledge: Knowledge | None = None
    fenced: bool = False

    def actor(self, position: int) -> int:
        return int(self.actors if isinstance(self.actors, int) else self.actors[position])

    def unknown(self, actors: Steps, steps: Steps) -> Flags:
        """Which steps of which actors, one per element, are not over before this access."""
        late = steps > self.clocks.known_to_all[actors]
        if late.any():
            (at,) = np.nonzero(late)
            if self.knowledge is not None:
                late[at] = steps[at] > self.knowledge.known[actors[at]]
            else:
                lanes = self.lanes if isinstance(self.lanes, int) else self.lanes[at]
                late[at] = steps[at] > self.clocks.known[lanes, actors[at]]
        return late

    def unfenced(self, actors: Steps, steps: Steps) -> Flags:
        assert self.knowledge is not None
        return steps > self.knowledge.fenced[actors]


@dataclass(frozen=True, slots=True)
class Conflict:
    """The first of ``count`` elements of one access that conflict in the same way."""

    kind: ConflictKind
    what: str
    element: int
    actor: int
    other_actor: int
    other_op: int
    count: int


@dataclass(slots=True)
class _Record:
    """The last access of each element: by whom, in which step (0: never), by which operation."""

    elements: int
    actor: Steps = field(init=False)
    step: Steps = field(init=False)
    op: Steps = field(init=False)

    def __post_init__(self) -> None:
        # Zeroed pages are handed out on first use: a large tensor of which little is touched costs little.
        self.actor, self.step, self.op = (np.zeros(self.elements, np.int32) for _ in range(3))

    def set(self, access: Access) -> None:
        index = access.index
        self.actor[index] = access.actors
        if not isinstance(access.actors, int):
            self.actor[index[self.actor[index] != access.actors]] = access.group
        self.step[index], self.op[index] = access.clocks.now, access.op


class Shadow:
    """Per element of a memory: the last write, and the last read of every group of actors."""

    def __init__(self, elements: int, written: bool) -> None:
        self._elements, self._given = elements, written
        self._write = _Record(elements)
        self._reads: dict[int, _Record] = {}

    @property
    def written(self) -> Flags:
        """Which elements have a value."""
        return np.ones(self._elements, np.bool_) if self._given else self._write.step > 0

    def read(self, access: Access) -> Iterator[Conflict]:
        """Record a read."""
        index, last = access.index, self._write
        writers, steps = last.actor[index], last.step[index]
        if not self._given:
            yield from self._conflicts("unwritten-read", "reads", steps == 0, access)
        unknown = access.unknown(writers, steps)
        if unknown.any():
            flying = unknown & (steps > access.clocks.landed[writers])
            yield from self._conflicts("unwaited-copy", "reads", flying, access, last)
            yield from self._conflicts("race", "reads what another thread wrote", unknown & ~flying, access, last)
        if access.fenced:
            unfenced = access.unfenced(writers, steps) & ~unknown
            yield from self._conflicts("unfenced-access", "reads", unfenced, access, last)
        self._record_read(access)

    def write(self, access: Access) -> Iterator[Conflict]:
        """Record a write, or the start of an asynchronous one, which may happen at any time until it is waited for."""
        index, last = access.index, self._write
        writers, steps = last.actor[index], last.step[index]
        unknown = access.unknown(writers, steps)
        if unknown.any():
            flying = unknown & (steps > access.clocks.landed[writers])
            yield from self._conflicts("unwaited-copy", "writes", flying, access, last)
            raced = unknown & ~flying
            yield from self._conflicts("race", "overwrites what another thread wrote", raced, access, last)
        if access.fenced:
            unfenced = access.unfenced(writers, steps) & ~unknown
            yield from self._conflicts("unfenced-access", "overwrites", unfenced, access, last)
        for read in self._reads.values():
            raced = access.unknown(read.actor[index], read.step[index])
            yield from self._conflicts("race", "overwrites what another thread reads", raced, access, read)
        last.set(access)

    def _record_read(self, access: Access) -> None:
        known = self._reads.get(access.group)
        if known is None:
            known = self._reads[access.group] = _Record(self._elements)
        if isinstance(access.actors, int):
            known.set(access)
            return
        index = access.index
        readers, steps = known.actor[index], known.step[index]
        # A reader that this one does not know of is not replaced by it: both of them count from now on.
        both = access.unknown(readers, steps) & (readers != access.actors)
        known.set(access)
        known.actor[index[both]] = access.group

    def _conflicts(
        self, kind: ConflictKind, what: str, at: Flags, access: Access, other: _Record | None = None
    ) -> Iterator[Conflict]:
        if not at.any():
            return
        first = int(np.argmax(at))
        element = int(access.index[first])
        by, op = (int(other.actor[element]), int(other.op[element])) if other else (-1, -1)
        yield Conflict(kind, what, element, access.actor(first), by, op, int(at.sum()))
