"""Where lanes start to access a memory in, its elements out: which ones, and by which lane each."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from wavespec.ir.nodes import node
from wavespec.sim.elements import Array, Flags, Integers, all_of


@node
class Touched:
    """Flat elements of a memory: ``count`` from ``start[threads]`` on for each lane, as far as they are ``active``."""

    start: Integers
    count: int
    active: Flags | None
    """``[threads, count]``; None: all of them, as of most accesses, which saves picking elements."""
    where: Integers
    """The active ones, those of one lane after those of another."""
    lanes: Integers
    """The lane of each."""

    def of(self, values: Array) -> Array:
        """From values of all elements, ``[threads, count]``, those of `where`."""
        return values.reshape(-1) if self.active is None else values[self.active]

    def spread(self, values: Array) -> Array:
        """The inverse of `of`, with zeros for the others."""
        if self.active is None:
            return values.reshape(len(self.start), self.count)
        whole = np.zeros(self.active.shape, values.dtype)
        whole[self.active] = values
        return whole

    @property
    def whole(self) -> Flags | None:
        """The threads that access all of their elements, ``[threads]``; None: every thread."""
        return None if self.active is None else np.logical_and.reduce(self.active, axis=1)

    @property
    def some(self) -> Flags | None:
        """The threads that access any of their elements."""
        return None if self.active is None else np.logical_or.reduce(self.active, axis=1)


@dataclass(slots=True)
class Rows:
    """Consecutive elements for each of some ``lanes``; arrays that are the same for all accesses are kept."""

    lanes: Integers
    _steps: dict[int, Integers] = field(default_factory=dict[int, Integers])
    _owners: dict[int, Integers] = field(default_factory=dict[int, Integers])

    def index(self, start: Integers, count: int) -> Integers:
        """``[threads, count]``."""
        if count == 1:
            return start[:, None]
        steps = self._steps.get(count)
        if steps is None:
            steps = self._steps[count] = np.tile(np.arange(count), len(self.lanes))
        # Not `start[:, None] + steps`: numpy is slow along short rows.
        return (start.repeat(count) + steps).reshape(-1, count)

    def active(self, threads: Flags, count: int, valid: Integers | int | None = None) -> Flags | None:
        """The elements of those threads, ``[threads, count]``, the first ``valid`` of each; None: all of them."""
        if valid is not None and (valid if isinstance(valid, int) else valid.min()) < count:
            return threads[:, None] & (np.arange(count) < np.broadcast_to(valid, threads.shape)[:, None])
        return None if all_of(threads) else threads.repeat(count).reshape(-1, count)

    def touched(self, start: Integers, count: int, active: Flags | None) -> Touched:
        index = self.index(start, count)
        if active is not None:
            return Touched(start, count, active, index[active], self.lanes[np.nonzero(active)[0]])
        owners = self._owners.get(count)
        if owners is None:
            owners = self._owners[count] = self.lanes.repeat(count)
        return Touched(start, count, None, index.reshape(-1), owners)
