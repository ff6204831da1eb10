"""Delays between operations of a loop in; the longest path between any two, for every initiation interval at once, out.

A path takes ``latency - distance * II`` clocks: it crosses ``distance`` iterations, which start II clocks apart.  As II
is not known yet, a length is a set of such pairs, the upper envelope of which counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

Length = tuple[int, int]
"""Latency in clocks, distance in iterations."""
Edge = tuple[int, int, int, int]
"""Before, after, latency, distance."""


def longest_paths(nodes: Sequence[int], edges: Iterable[Edge], least: int) -> dict[tuple[int, int], list[Length]]:
    """All pairs, by Floyd and Warshall, for every II of ``least`` and more; pairs without a path are left out.

    Cycles through a node are its own pair.
    """
    inside = set(nodes)
    paths: dict[tuple[int, int], list[Length]] = {}
    for before, after, latency, distance in edges:
        if before in inside and after in inside:
            paths[before, after] = envelope([*paths.get((before, after), ()), (latency, distance)], least)
    for via in nodes:
        arriving = [(node, paths[node, via]) for node in nodes if node != via and (node, via) in paths]
        leaving = [(node, paths[via, node]) for node in nodes if node != via and (via, node) in paths]
        for first, heads in arriving:
            for last, tails in leaving:
                joined = [(a + c, b + d) for a, b in heads for c, d in tails]
                paths[first, last] = envelope([*paths.get((first, last), ()), *joined], least)
    return paths


def envelope(lengths: Iterable[Length], least: int) -> list[Length]:
    """The pairs that are longest for some II of ``least`` and more, the shortest distance first."""
    kept: list[Length] = []
    for latency, distance in sorted(lengths, key=lambda pair: (pair[1], -pair[0])):
        if kept and latency - distance * least <= kept[-1][0] - kept[-1][1] * least:
            continue
        # A pair between two others counts only where it is left behind before the one behind it catches up.
        while len(kept) > 1 and (latency - kept[-1][0]) * (kept[-1][1] - kept[-2][1]) >= (kept[-1][0] - kept[-2][0]) * (
            distance - kept[-1][1]
        ):
            kept.pop()
        kept.append((latency, distance))
    return kept


def shortest_interval(paths: Mapping[tuple[int, int], Sequence[Length]]) -> tuple[int, int]:
    """The least II that every cycle allows, and a node of the cycle that asks for it (-1: there is no cycle).

    Raises:
        ValueError: a cycle inside of one iteration, which no II allows.
    """
    found = (0, -1)
    for (first, last), lengths in paths.items():
        if first != last:
            continue
        for latency, distance in lengths:
            if distance == 0 and latency > 0:
                raise ValueError(f"operation {first} waits for itself in one iteration")
            if distance:
                found = max(found, (-(-latency // distance), first))
    return found


def components(count: int, edges: Iterable[Edge]) -> list[list[int]]:
    """Strongly connected components of more than one node, or of one that depends on itself."""
    following: list[list[int]] = [[] for _ in range(count)]
    own: set[int] = set()
    for before, after, _, _ in edges:
        following[before].append(after)
        if before == after:
            own.add(before)
    index: dict[int, int] = {}
    low: dict[int, int] = {}
    stack: list[int] = []
    found: list[list[int]] = []

    def visit(root: int) -> None:
        work = [(root, iter(following[root]))]
        index[root] = low[root] = len(index)
        stack.append(root)
        while work:
            node, rest = work[-1]
            after = next(rest, None)
            if after is None:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    at = stack.index(node)
                    part = stack[at:]
                    del stack[at:]
                    if len(part) > 1 or node in own:
                        found.append(sorted(part))
            elif after not in index:
                index[after] = low[after] = len(index)
                stack.append(after)
                work.append((after, iter(following[after])))
            elif after in stack:
                low[node] = min(low[node], index[after])

    for node in range(count):
        if node not in index:
            visit(node)
    return sorted(found)
