"""Accesses of one memory in, conflicts out: who wrote and read each element since the last barrier."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from wavespec.sim.elements import Flags, Integers

MANY = -2
"""Several threads in one step; ordered with no thread."""


@dataclass(frozen=True, slots=True)
class Conflict:
    """The first of ``count`` elements of one access that conflict in the same way."""

    kind: Literal["race", "unwritten-read", "unwaited-copy"]
    what: str
    element: int
    thread: int
    other_thread: int
    other_op: int
    count: int


class Shadow:
    """Per element of a memory: written at all, and by which thread and operation in which barrier epoch.

    ``index`` and ``thread`` are parallel one-dimensional arrays, one entry per element accessed.  Epochs
    start at 1 and grow.
    """

    def __init__(self, elements: int, written: bool) -> None:
        # Zeroed pages are handed out on first use: a large tensor of which little is touched costs little.
        self.written: Flags = np.ones(elements, np.bool_) if written else np.zeros(elements, np.bool_)
        self.flying: npt.NDArray[np.int32] = np.zeros(elements, np.int32)
        self.flying_op: npt.NDArray[np.int32] = np.zeros(elements, np.int32)
        self.writer, self.write_epoch, self.write_op = (np.zeros(elements, np.int32) for _ in range(3))
        self.reader, self.read_epoch, self.read_op = (np.zeros(elements, np.int32) for _ in range(3))

    def read(self, index: Integers, thread: Integers, epoch: int, op: int) -> Iterator[Conflict]:
        """Record a read; a collective read passes `MANY` as every thread."""
        flying = self.flying[index] > 0
        yield from self._conflicts("unwaited-copy", "reads", flying, index, thread, flying_op=True)
        yield from self._conflicts("unwritten-read", "reads", ~self.written[index] & ~flying, index, thread)
        raced = (self.write_epoch[index] == epoch) & ((self.writer[index] != thread) | (thread == MANY)) & ~flying
        yield from self._conflicts("race", "reads what another thread wrote", raced, index, thread)
        earlier = np.where(self.read_epoch[index] == epoch, self.reader[index], thread)
        self.reader[index] = thread
        self.reader[index[(self.reader[index] != thread) | (earlier != thread)]] = MANY
        self.read_epoch[index] = epoch
        self.read_op[index] = op

    def write(self, index: Integers, thread: Integers, epoch: int, op: int) -> Iterator[Conflict]:
        """Record a write."""
        yield from self._write_conflicts(index, thread, epoch)
        self._record_write(index, thread, epoch, op)

    def issue(self, index: Integers, thread: Integers, epoch: int, op: int) -> Iterator[Conflict]:
        """Record the start of an asynchronous write, which may happen at any time from here to `land`."""
        yield from self._write_conflicts(index, thread, epoch)
        np.add.at(self.flying, index, 1)
        self.flying_op[index] = op

    def land(self, index: Integers, thread: Integers, epoch: int, op: int) -> None:
        """Record the end of an asynchronous write: from here on it is a write of its thread in this epoch."""
        np.add.at(self.flying, index, -1)
        self._record_write(index, thread, epoch, op)

    def _write_conflicts(self, index: Integers, thread: Integers, epoch: int) -> Iterator[Conflict]:
        flying = self.flying[index] > 0
        yield from self._conflicts("unwaited-copy", "writes", flying, index, thread, flying_op=True)
        raced = (self.write_epoch[index] == epoch) & (self.writer[index] != thread) & ~flying
        yield from self._conflicts("race", "overwrites what another thread wrote", raced, index, thread)
        raced = (self.read_epoch[index] == epoch) & (self.reader[index] != thread)
        yield from self._conflicts("race", "overwrites what another thread reads", raced, index, thread, reader=True)

    def _record_write(self, index: Integers, thread: Integers, epoch: int, op: int) -> None:
        self.written[index] = True
        self.writer[index] = thread
        self.writer[index[self.writer[index] != thread]] = MANY
        self.write_epoch[index] = epoch
        self.write_op[index] = op

    def _conflicts(
        self,
        kind: Literal["race", "unwritten-read", "unwaited-copy"],
        what: str,
        at: Flags,
        index: Integers,
        thread: Integers,
        *,
        reader: bool = False,
        flying_op: bool = False,
    ) -> Iterator[Conflict]:
        if not at.any():
            return
        first = int(np.argmax(at))
        element = int(index[first])
        ops = self.flying_op if flying_op else self.read_op if reader else self.write_op
        others = self.reader if reader else self.writer
        other_op = -1 if kind == "unwritten-read" else int(ops[element])
        yield Conflict(kind, what, element, int(thread[first]), int(others[element]), other_op, int(at.sum()))
