"""Delays between operations of a loop in; the interval between iterations that its cycles of dependences ask for out.

A cycle takes ``latency`` clocks and crosses ``distance`` iterations, which start II clocks apart, so II is at least
``latency / distance``.  The largest such ratio is found by trying: Bellman and Ford's search for a cycle that is too
long for an II gives the next one to try.  R. A. Howard's policy iteration works alike.
"""

from __future__ import annotations

from collections.abc import Sequence

Edge = tuple[int, int, int, int]
"""Before, after, latency, distance."""


class NotScheduled(ValueError):
    """``operation``: the one that stands in the way, by its number."""

    def __init__(self, operation: int, why: str) -> None:
        super().__init__(f"operation {operation} {why}")
        self.operation, self.why = operation, why


def shortest_interval(count: int, edges: Sequence[Edge]) -> tuple[int, int]:
    """The least II that every cycle of ``count`` operations allows, and an operation of the cycle that asks for it
    (-1: none asks for more than 0).

    Raises:
        NotScheduled: a cycle inside of one iteration, which no II allows.
    """
    interval, critical = 0, -1
    start = [0] * count
    while (cycle := _too_long(start, edges, interval)) is not None:
        latency, distance = sum(edge[2] for edge in cycle), sum(edge[3] for edge in cycle)
        critical = max(edge[1] for edge in cycle)
        if distance <= 0:
            raise NotScheduled(critical, "waits for itself in one iteration")
        interval = -(-latency // distance)
    return interval, critical


def _too_long(start: list[int], edges: Sequence[Edge], interval: int) -> list[Edge] | None:
    """The edges of a cycle that takes longer than ``interval`` allows; None where there is none.

    ``start`` is changed to starts that keep the dependences; wherever the search begins, it ends.
    """
    waits_for: list[Edge | None] = [None] * len(start)
    delays = [(edge[0], edge[1], edge[2] - edge[3] * interval, edge) for edge in reversed(edges)]
    changed = True
    while changed:
        changed = False
        for before, after, delay, edge in delays:
            if start[before] + delay > start[after]:
                start[after] = start[before] + delay
                waits_for[after] = edge
                changed = True
        if changed and (cycle := _cycle(waits_for)):
            return cycle
    return None


def _cycle(waits_for: Sequence[Edge | None]) -> list[Edge] | None:
    """A cycle of operations each of which waits for the one before."""
    seen = [-1] * len(waits_for)
    for first in range(len(waits_for)):
        node = first
        path: list[Edge] = []
        while seen[node] < 0 and (edge := waits_for[node]) is not None:
            seen[node] = first
            path.append(edge)
            node = edge[0]
        if path and seen[node] == first:
            return path[next(at for at, edge in enumerate(path) if edge[1] == node) :]
    return None
