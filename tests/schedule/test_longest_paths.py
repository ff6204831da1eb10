"""Longest paths for every initiation interval at once, the bound that cycles set, and components."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wavespec.schedule.longest_paths import Edge, components, envelope, longest_paths, shortest_interval


def test_parallel_paths_are_kept_where_each_is_longest_for_some_interval() -> None:
    # 10 clocks in the iteration, or 25 with one iteration in between: the second is longer below 15.
    assert longest_paths([0, 1], [(0, 1, 10, 0), (0, 1, 25, 1)], 1)[0, 1] == [(10, 0), (25, 1)]
    assert longest_paths([0, 1], [(0, 1, 10, 0), (0, 1, 25, 1)], 15)[0, 1] == [(10, 0)]


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 4)), min_size=1), st.integers(1, 20))
def test_an_envelope_is_as_long_as_all_pairs_for_every_interval(lengths: list[tuple[int, int]], least: int) -> None:
    kept = envelope(lengths, least)
    for interval in range(least, 120):
        assert max(a - b * interval for a, b in kept) == max(a - b * interval for a, b in lengths)


def test_chain_adds_up() -> None:
    paths = longest_paths([0, 1, 2], [(0, 1, 3, 0), (1, 2, 4, 0), (0, 2, 5, 0)], 1)
    assert paths[0, 2] == [(7, 0)] and (2, 0) not in paths


def test_interval_is_the_largest_ratio_of_latency_to_distance() -> None:
    edges: list[Edge] = [(0, 1, 6, 0), (1, 0, 4, 2), (1, 2, 1, 0), (2, 1, 6, 1)]
    paths = longest_paths([0, 1, 2], edges, 1)
    assert shortest_interval(paths)[0] == 7  # ceil(10 / 2) = 5 of one cycle, 7 / 1 of the other


def test_waiting_for_itself_in_one_iteration_is_refused() -> None:
    with pytest.raises(ValueError, match="operation"):
        shortest_interval(longest_paths([0, 1], [(0, 1, 1, 0), (1, 0, 1, 0)], 1))


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4), st.integers(0, 9), st.integers(1, 3)), max_size=8))
def test_bound_is_that_of_the_worst_simple_cycle(edges: list[Edge]) -> None:
    best: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for before, after, latency, distance in edges:
        best.setdefault((before, after), []).append((latency, distance))
    expected = 0
    for size in range(1, 6):
        for cycle in itertools.permutations(range(5), size):
            steps = list(zip(cycle, (*cycle[1:], cycle[0]), strict=True))
            if all(step in best for step in steps):
                for choice in itertools.product(*(best[step] for step in steps)):
                    latency, distance = (sum(part) for part in zip(*choice, strict=True))
                    expected = max(expected, -(-latency // distance))
    assert shortest_interval(longest_paths(range(5), edges, 1))[0] == expected


def test_components_are_what_reaches_each_other() -> None:
    edges: list[Edge] = [(0, 1, 1, 0), (1, 0, 1, 1), (1, 2, 1, 0), (3, 3, 1, 1), (2, 4, 1, 0)]
    assert components(5, edges) == [[0, 1], [3]]
