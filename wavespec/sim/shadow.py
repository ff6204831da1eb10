"""Accesses of one memory in, conflicts out: who wrote and read each element last, and who can know of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from wavespec.ir.nodes import node
from wavespec.sim.clocks import Clocks, Knowledge, Steps
from wavespec.sim.elements import Flags, Integers, some

ConflictKind = Literal["race", "unwritten-read", "unwaited-copy", "unfenced-access"]


@node
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
        if some(late):
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
    """The last access of each element: by whom, in which step (0: never); and which operation each step was of."""

    elements: int
    actor: Steps = field(init=False)
    step: Steps = field(init=False)
    ops: dict[int, int] = field(default_factory=dict[int, int])

    def __post_init__(self) -> None:
        # Zeroed pages are handed out on first use: a large tensor of which little is touched costs little.
        self.actor, self.step = (np.zeros(self.elements, np.int32) for _ in range(2))

    def set(self, access: Access) -> None:
        index = access.index
        self.actor[index] = access.actors
        if not isinstance(access.actors, int):
            by_several = self.actor[index] != access.actors
            if some(by_several):
                self.actor[index[by_several]] = access.group
        self.step[index] = access.clocks.now
        self.ops[access.clocks.now] = access.op

    def by_several_waves(self, access: Access) -> Flags:
        """Of which elements of the access, the last one here, lanes of different waves are the actors: waves that run
        in step here do not on a machine."""
        shared = self.actor[access.index] == access.group
        if isinstance(access.actors, int) or not some(shared):
            return np.zeros(len(access.index), np.bool_)
        waves = access.actors // access.clocks.kernel.lanes
        one = np.zeros(self.elements, np.int32)
        one[access.index] = waves
        return shared & (one[access.index] != waves)


class Shadow:
    """Per element of a memory: the last write, and of every group of actors the last read and the last update.

    An update, which combines something with an element in one step, is in no conflict with other updates.
    """

    def __init__(self, elements: int, written: bool) -> None:
        self._elements, self._given = elements, written
        self._write = _Record(elements)
        self._reads: dict[int, _Record] = {}
        self._updates: dict[int, _Record] = {}

    @property
    def written(self) -> Flags:
        """Which elements have a value."""
        return np.ones(self._elements, np.bool_) if self._given else self._write.step > 0

    def read(self, access: Access) -> Iterator[Conflict]:
        """Record a read."""
        yield from self._after_write(access, "reads")
        yield from self._after_others(access, self._updates, "reads what another thread combines something with")
        _record(self._reads, access, self._elements)

    def update(self, access: Access) -> Iterator[Conflict]:
        """Record that something is combined with what is there."""
        yield from self._after_write(access, "updates")
        yield from self._after_others(access, self._reads, "updates what another thread reads")
        _record(self._updates, access, self._elements)

    def _after_write(self, access: Access, does: str) -> Iterator[Conflict]:
        """Whether what is there now is known to be there."""
        index, last = access.index, self._write
        writers, steps = last.actor[index], last.step[index]
        if not self._given:
            yield from self._conflicts("unwritten-read", does, steps == 0, access)
        unknown = access.unknown(writers, steps)
        if some(unknown):
            flying = unknown & (steps > access.clocks.landed[writers])
            yield from self._conflicts("unwaited-copy", does, flying, access, last)
            yield from self._conflicts("race", f"{does} what another thread wrote", unknown & ~flying, access, last)
        if access.fenced:
            unfenced = access.unfenced(writers, steps) & ~unknown
            yield from self._conflicts("unfenced-access", does, unfenced, access, last)

    def _after_others(self, access: Access, others: dict[int, _Record], what: str) -> Iterator[Conflict]:
        for other in others.values():
            raced = access.unknown(other.actor[access.index], other.step[access.index])
            yield from self._conflicts("race", what, raced, access, other)

    def write(self, access: Access, equal: Callable[[], Flags] | None = None) -> Iterator[Conflict]:
        """Record a write, or the start of an asynchronous one, which may happen at any time until it is waited for.

        ``equal``: which elements hold what is written already, so that the order of both writes is all one; without it
        waves may not even write the same.
        """
        index, last = access.index, self._write
        writers, steps = last.actor[index], last.step[index]
        unknown = access.unknown(writers, steps)
        if some(unknown):
            flying = unknown & (steps > access.clocks.landed[writers])
            yield from self._conflicts("unwaited-copy", "writes", flying, access, last)
            raced = unknown & ~flying if equal is None else unknown & ~flying & ~equal()
            yield from self._conflicts("race", "overwrites what another thread wrote", raced, access, last)
        if access.fenced:
            unfenced = access.unfenced(writers, steps) & ~unknown
            yield from self._conflicts("unfenced-access", "overwrites", unfenced, access, last)
        yield from self._after_others(access, self._reads, "overwrites what another thread reads")
        yield from self._after_others(access, self._updates, "overwrites what another thread combines something with")
        last.set(access)
        if equal is None and some(several := last.by_several_waves(access)):
            yield from self._conflicts("race", "writes what several waves write", several, access, last)

    def take(self, access: Access) -> Iterator[Conflict]:
        """Record that other memory takes the bytes, of which nothing is left; writes and reads have to be over."""
        writers, steps = self._write.actor[access.index], self._write.step[access.index]
        what = "takes the bytes of what another thread wrote"
        yield from self._conflicts("race", what, access.unknown(writers, steps), access, self._write)
        yield from self._after_others(access, self._reads, "takes the bytes of what another thread reads")
        self._write.step[access.index] = 0

    def _conflicts(
        self, kind: ConflictKind, what: str, at: Flags, access: Access, other: _Record | None = None
    ) -> Iterator[Conflict]:
        if not some(at):
            return
        first = int(np.argmax(at))
        element = int(access.index[first])
        by, op = (int(other.actor[element]), other.ops[int(other.step[element])]) if other else (-1, -1)
        yield Conflict(kind, what, element, access.actor(first), by, op, int(at.sum()))


def _record(table: dict[int, _Record], access: Access, elements: int) -> None:
    known = table.get(access.group)
    if known is None:
        known = table[access.group] = _Record(elements)
    if isinstance(access.actors, int):
        known.set(access)
        return
    index = access.index
    actors, steps = known.actor[index], known.step[index]
    # One that this one does not know of is not replaced by it: both of them count from now on.
    both = access.unknown(actors, steps) & (actors != access.actors)
    known.set(access)
    if some(both):
        known.actor[index[both]] = access.group
