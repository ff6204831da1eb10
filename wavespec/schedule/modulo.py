"""Costs and dependences of a loop in; a start for every operation of a pattern that repeats every II clocks out.

Iterative modulo scheduling: B. R. Rau, "Iterative Modulo Scheduling: An Algorithm For Software Pipelining Loops", 1994.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from wavespec.schedule.costs import Cost
from wavespec.schedule.longest_paths import Edge, components, longest_paths, shortest_interval

_TRIES_PER_OPERATION = 6  # placements of one operation, on the average, before the next II is tried
_MOST_INTERVALS = 64  # intervals tried above the bound


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
        ValueError: dependences that no interval allows, or no pattern near the bound.
    """
    quantum = math.gcd(*(cost.busy for cost in costs if cost.unit)) or 1
    costs = [Cost(cost.unit, cost.busy // quantum, -(-cost.latency // quantum)) for cost in costs]
    edges = [(before, after, -(-latency // quantum), distance) for before, after, latency, distance in edges]
    taken: dict[str, int] = defaultdict(int)
    for cost in costs:
        if cost.unit:
            taken[cost.unit] += cost.busy
    by_unit = max(((-(-busy // units[unit]), unit) for unit, busy in taken.items()), default=(0, ""))
    by_cycle = (0, -1)
    for part in components(len(costs), edges):
        by_cycle = max(by_cycle, shortest_interval(longest_paths(part, edges, 1)))
    bound = max(by_unit[0], by_cycle[0], max(cost.busy for cost in costs), 1)
    refused: list[tuple[int, int]] = []
    for interval in range(bound, bound + _MOST_INTERVALS):
        table = _ReservationTable(costs, edges, units, interval)
        start = table.filled()
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
        refused.append((interval * quantum, table.most_refused()))
    raise ValueError(f"no pattern of {bound} to {bound + _MOST_INTERVALS - 1} steps of {quantum} clocks")


class _ReservationTable:
    """One attempt at one interval: which operation keeps which unit busy in which clock of the pattern."""

    def __init__(self, costs: Sequence[Cost], edges: Sequence[Edge], units: Mapping[str, int], interval: int) -> None:
        self.costs, self.units, self.interval = costs, units, interval
        self.rows: dict[str, list[set[int]]] = {unit: [set() for _ in range(interval)] for unit in units}
        self.before: list[list[tuple[int, int]]] = [[] for _ in costs]
        self.after: list[list[tuple[int, int]]] = [[] for _ in costs]
        for before, after, latency, distance in edges:
            delay = latency - distance * interval
            self.before[after].append((before, delay))
            self.after[before].append((after, delay))
        self.start: dict[int, int] = {}
        self.earlier: dict[int, int] = {}
        self.displaced = [0] * len(costs)

    def filled(self) -> list[int] | None:
        """The start of every operation; None where the tries ran out."""
        height = self._heights()
        waiting = set(range(len(self.costs)))
        for _ in range(_TRIES_PER_OPERATION * len(self.costs)):
            if not waiting:
                self._delay_sources()
                first = min(self.start.values())
                return [self.start[number] - first for number in range(len(self.costs))]
            number = min(waiting, key=lambda one: (-height[one], one))
            waiting.remove(number)
            waiting |= self._place(number)
        return None

    def most_refused(self) -> int:
        """The operation that was displaced most often."""
        return max(range(len(self.costs)), key=lambda number: self.displaced[number])

    def _heights(self) -> list[int]:
        """The longest path from each operation to the end of the pattern."""
        height = [0] * len(self.costs)
        changed = True
        while changed:  # the interval is no less than any cycle asks for: lengths stop growing
            changed = False
            for number, following in enumerate(self.after):
                longest = max((height[after] + delay for after, delay in following), default=0)
                if longest > height[number]:
                    height[number], changed = longest, True
        return height

    def _delay_sources(self) -> None:
        """Operations that wait for no value start as late as what uses them allows: results take registers."""
        for number in sorted(self.start, key=lambda one: -self.start[one]):
            if not self.after[number]:
                continue
            latest = min(self.start[after] - delay for after, delay in self.after[number])
            at = self.start[number]
            self._remove(number)
            free = (
                slot for slot in range(min(latest, at + self.interval - 1), at, -1) if not self._conflicts(number, slot)
            )
            self.start[number] = next(free, at)
            for row in self._rows(number, self.start[number]):
                row.add(number)

    def _place(self, number: int) -> set[int]:
        """Put one operation where it fits first, or where it has not been yet; returns those that had to leave."""
        earliest = max((self.start[b] + delay for b, delay in self.before[number] if b in self.start), default=0)
        slots = range(earliest, earliest + self.interval)
        at = next((slot for slot in slots if not self._conflicts(number, slot)), None)
        if at is None:
            at = max(earliest, self.earlier.get(number, earliest - 1) + 1)
        leaving = self._conflicts(number, at)
        leaving |= {
            a for a, delay in self.after[number] if a in self.start and a != number and self.start[a] < at + delay
        }
        for one in leaving:
            self._remove(one)
        self.start[number] = self.earlier[number] = at
        for row in self._rows(number, at):
            row.add(number)
        return leaving

    def _remove(self, number: int) -> None:
        for row in self._rows(number, self.start.pop(number)):
            row.discard(number)
        self.displaced[number] += 1

    def _conflicts(self, number: int, at: int) -> set[int]:
        unit = self.costs[number].unit
        return {one for row in self._rows(number, at) if len(row) >= self.units[unit] for one in row}

    def _rows(self, number: int, at: int) -> list[set[int]]:
        cost = self.costs[number]
        return [self.rows[cost.unit][(at + i) % self.interval] for i in range(cost.busy)] if cost.unit else []
