"""The bound that cycles of dependences set on the interval between iterations."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wavespec.schedule.recurrences import Edge, shortest_interval


def test_interval_is_the_largest_ratio_of_latency_to_distance() -> None:
    edges: list[Edge] = [(0, 1, 6, 0), (1, 0, 4, 2), (1, 2, 1, 0), (2, 1, 6, 1)]
    interval, critical = shortest_interval(3, edges)
    assert interval == 7 and critical in (1, 2)  # ceil(10 / 2) = 5 of one cycle, 7 / 1 of the other


def test_waiting_for_itself_in_one_iteration_is_refused() -> None:
    with pytest.raises(ValueError, match="operation"):
        shortest_interval(2, [(0, 1, 1, 0), (1, 0, 1, 0)])


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
    assert shortest_interval(5, edges)[0] == expected


def test_long_cycles_through_many_operations_take_no_longer_than_their_edges() -> None:
    # Every operation of a step is before every later one, and the last before the first of the next step.
    edges: list[Edge] = [(before, after, 2, 0) for after in range(300) for before in range(max(0, after - 40), after)]
    interval, critical = shortest_interval(300, [*edges, (299, 0, 7, 1)])
    assert interval == 299 * 2 + 7
    assert 0 <= critical < 300


def test_dependences_without_a_cycle_ask_for_nothing() -> None:
    assert shortest_interval(3, [(0, 1, 5, 0), (1, 2, 5, 1)]) == (0, -1)
