"""Operations with costs and dependences in; an order in which no unit waits longer than it has to, out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from wavespec.schedule.costs import Cost


def list_schedule(costs: Sequence[Cost], edges: Iterable[tuple[int, int, int]], units: dict[str, int]) -> list[int]:
    """The start of every operation in clocks: greedy, the longest path to the end first.

    Args:
        costs: of each operation.
        edges: ``(before, after, clocks)``, without cycles: ``after`` starts at least so long after ``before``.
        units: how many there are of each.

    Returns:
        A start per operation; no more operations keep a unit busy at once than there are units.
    """
    count = len(costs)
    following: list[list[tuple[int, int]]] = [[] for _ in range(count)]
    waiting = [0] * count
    for before, after, clocks in edges:
        following[before].append((after, clocks))
        waiting[after] += 1
    height = _heights(costs, following, list(waiting))
    ready = {number for number in range(count) if not waiting[number]}
    earliest, start = [0] * count, [0] * count
    free = {unit: [0] * number for unit, number in units.items()}
    while ready:
        # Of those that can start first, the one with the longest way to go; then the order of the program.
        def when(number: int) -> int:
            unit = costs[number].unit
            return max(earliest[number], min(free[unit])) if unit else earliest[number]

        chosen = min(ready, key=lambda number: (when(number), -height[number], number))
        start[chosen] = when(chosen)
        ready.remove(chosen)
        if unit := costs[chosen].unit:
            place = free[unit].index(min(free[unit]))
            free[unit][place] = start[chosen] + costs[chosen].busy
        for after, clocks in following[chosen]:
            earliest[after] = max(earliest[after], start[chosen] + clocks)
            waiting[after] -= 1
            if not waiting[after]:
                ready.add(after)
    return start


def _heights(costs: Sequence[Cost], following: Sequence[Sequence[tuple[int, int]]], waiting: list[int]) -> list[int]:
    """Clocks from the start of each operation to the end of the last one that depends on it."""
    order = [number for number, left in enumerate(waiting) if not left]
    for number in order:
        for after, _ in following[number]:
            waiting[after] -= 1
            if not waiting[after]:
                order.append(after)
    assert len(order) == len(costs), "the dependences of one round have a cycle"
    height = [0] * len(costs)
    for number in reversed(order):
        ends = [height[after] + clocks for after, clocks in following[number]]
        height[number] = max(costs[number].latency, *ends) if ends else costs[number].latency
    return height
