"""Costs and dependences of a loop in; a start for every operation of a pattern that repeats every II clocks out.

Iterative modulo scheduling: B. R. Rau, "Iterative Modulo Scheduling: An Algorithm For Software Pipelining Loops", 1994.
"""

from __future__ import annotations

import heapq
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from wavespec.schedule.costs import Cost
from wavespec.schedule.recurrences import Edge, NotScheduled, shortest_interval

_TRIES_PER_OPERATION = 6  # placements of one operation, on the average, before the next II is tried
_MOST_PLACEMENTS = 60_000  # of one loop, in all intervals: a second or two
_MOST_LOOKED_AT = 1_200_000  # dependences that placements look at, of a loop where each operation has many
_MOST_INTERVALS, _ONE_BY_ONE = 64, 8  # intervals that are tried, and the first of them, which are one step apart
_GROWTH = 16  # behind those, each is longer than the one before by a part of this size


@dataclass(frozen=True, slots=True)
class ModuloSchedule:
    """``start`` of every operation in clocks; iterations start ``interval`` clocks apart, at least ``bound``.

    ``unit``: what the bound comes from, a unit, or "" for the cycle through operation ``cycle``.  ``refused``: for each
    interval that was tried in vain, the operation that found no place most often.
    """

    start: tuple[int, ...]
    interval: int
    unit: str
    cycle: int
    resource_bound: int
    recurrence_bound: int
    refused: tuple[tuple[int, int], ...]

    @property
    def bound(self) -> int:
        return max(self.resource_bound, self.recurrence_bound)


def modulo_schedule(costs: Sequence[Cost], edges: Sequence[Edge], units: Mapping[str, int]) -> ModuloSchedule:
    """The pattern with the shortest interval that was found.

    Raises:
        NotScheduled: dependences that no interval allows, or no pattern within the tries.
    """
    quantum = math.gcd(*(cost.busy for cost in costs if cost.unit)) or 1
    costs = [Cost(cost.unit, cost.busy // quantum, -(-cost.latency // quantum)) for cost in costs]
    edges = [(before, after, -(-latency // quantum), distance) for before, after, latency, distance in edges]
    taken: dict[str, int] = defaultdict(int)
    for cost in costs:
        if cost.unit:
            taken[cost.unit] += cost.busy
    by_unit = max(((-(-busy // units[unit]), unit) for unit, busy in taken.items()), default=(0, ""))
    by_cycle = shortest_interval(len(costs), edges)
    bound = max(by_unit[0], by_cycle[0], max(cost.busy for cost in costs), 1)
    refused: list[tuple[int, int]] = []
    interval, left = bound, min(_MOST_PLACEMENTS, _MOST_LOOKED_AT * len(costs) // max(1, 2 * len(edges)))
    while len(refused) < _MOST_INTERVALS and left > 0:
        table = _ReservationTable(costs, edges, units, interval)
        start = table.filled(left)
        if start is not None:
            return ModuloSchedule(
                tuple(at * quantum for at in start),
                interval * quantum,
                by_unit[1] if by_unit[0] >= by_cycle[0] else "",
                by_cycle[1],
                by_unit[0] * quantum,
                by_cycle[0] * quantum,
                tuple(refused),
            )
        left -= table.placed
        refused.append((interval * quantum, table.most_refused()))
        interval += 1 if len(refused) < _ONE_BY_ONE else max(1, interval // _GROWTH)
    longest, number = refused[-1]
    raise NotScheduled(
        number, f"finds no place in patterns of {bound * quantum} to {longest} clocks ({len(refused)} tried)"
    )


class _ReservationTable:
    """One attempt at one interval: which operation keeps which unit busy in which clock of the pattern."""

    def __init__(self, costs: Sequence[Cost], edges: Sequence[Edge], units: Mapping[str, int], interval: int) -> None:
        self.costs, self.units, self.interval = costs, units, interval
        self.rows: dict[str, list[set[int]]] = {unit: [set() for _ in range(interval)] for unit in units}
        self.idle = dict.fromkeys(units, (1 << interval) - 1)  # clocks with a unit left, as bits
        self.before: list[list[tuple[int, int]]] = [[] for _ in costs]
        self.after: list[list[tuple[int, int]]] = [[] for _ in costs]
        for before, after, latency, distance in edges:
            delay = latency - distance * interval
            self.before[after].append((before, delay))
            self.after[before].append((after, delay))
        self.start: dict[int, int] = {}
        self.earlier: dict[int, int] = {}
        self.displaced = [0] * len(costs)
        self.placed = 0

    def filled(self, most: int) -> list[int] | None:
        """The start of every operation; None where the tries, or the ``most`` placements, ran out."""
        height = self._heights()
        waiting = [(-height[number], number) for number in range(len(self.costs))]
        heapq.heapify(waiting)
        most = min(most, _TRIES_PER_OPERATION * len(self.costs))
        while waiting and self.placed < most:
            _, number = heapq.heappop(waiting)
            self.placed += 1
            for one in self._place(number):
                heapq.heappush(waiting, (-height[one], one))
        if waiting:
            return None
        self._delay_sources()
        first = min(self.start.values())
        return [self.start[number] - first for number in range(len(self.costs))]

    def most_refused(self) -> int:
        """The operation that was displaced most often."""
        return max(range(len(self.costs)), key=lambda number: self.displaced[number])

    def _heights(self) -> list[int]:
        """The longest path from each operation to the end of the pattern."""
        height = [0] * len(self.costs)
        changed = True
        while changed:  # the interval is no less than any cycle asks for: lengths stop growing
            changed = False
            for number in reversed(range(len(height))):
                for after, delay in self.after[number]:
                    if height[after] + delay > height[number]:
                        height[number], changed = height[after] + delay, True
        return height

    def _delay_sources(self) -> None:
        """Operations that wait for no value start as late as what uses them allows: results take registers."""
        for number in sorted(self.start, key=lambda one: -self.start[one]):
            if not self.after[number]:
                continue
            latest = min(self.start[after] - delay for after, delay in self.after[number])
            at = self.start[number]
            self._remove(number)
            free = self._free(number)
            later = range(min(latest, at + self.interval - 1), at, -1)
            self._put(number, next((slot for slot in later if free >> slot % self.interval & 1), at))

    def _place(self, number: int) -> set[int]:
        """Put one operation where it fits first, or where it has not been yet; returns those that had to leave."""
        earliest = max((self.start[b] + delay for b, delay in self.before[number] if b in self.start), default=0)
        if free := self._free(number):
            turn = earliest % self.interval
            later = free >> turn | (free & ((1 << turn) - 1)) << (self.interval - turn)
            at = earliest + (later & -later).bit_length() - 1
        else:
            at = max(earliest, self.earlier.get(number, earliest - 1) + 1)
        unit = self.costs[number].unit
        leaving = {one for row in self._rows(number, at) if len(row) >= self.units[unit] for one in row}
        leaving |= {
            a for a, delay in self.after[number] if a in self.start and a != number and self.start[a] < at + delay
        }
        for one in leaving:
            self._remove(one)
        self._put(number, at)
        self.earlier[number] = at
        return leaving

    def _put(self, number: int, at: int) -> None:
        self.start[number] = at
        for row in self._rows(number, at):
            row.add(number)
        self._count(number, at)

    def _remove(self, number: int) -> None:
        at = self.start.pop(number)
        for row in self._rows(number, at):
            row.discard(number)
        self._count(number, at)
        self.displaced[number] += 1

    def _count(self, number: int, at: int) -> None:
        """Note which clocks of an operation have a unit left."""
        unit = self.costs[number].unit
        for clock in range(at, at + self.costs[number].busy if unit else at):
            bit = 1 << clock % self.interval
            if len(self.rows[unit][clock % self.interval]) < self.units[unit]:
                self.idle[unit] |= bit
            else:
                self.idle[unit] &= ~bit

    def _free(self, number: int) -> int:
        """The clocks of the pattern, as bits, from which on the unit is free for as long as the operation takes."""
        unit, busy, every = self.costs[number].unit, self.costs[number].busy, (1 << self.interval) - 1
        if not unit:
            return every
        runs, length = self.idle[unit] | self.idle[unit] << self.interval, 1
        while length < busy:
            step = min(length, busy - length)
            runs &= runs >> step
            length += step
        return runs & every

    def _rows(self, number: int, at: int) -> list[set[int]]:
        cost = self.costs[number]
        return [self.rows[cost.unit][(at + i) % self.interval] for i in range(cost.busy)] if cost.unit else []
