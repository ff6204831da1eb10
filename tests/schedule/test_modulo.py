"""Patterns that repeat: no unit is asked for twice, no dependence is broken, the interval is near its bound."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wavespec.schedule import modulo
from wavespec.schedule.costs import Cost
from wavespec.schedule.modulo import ModuloSchedule, modulo_schedule
from wavespec.schedule.recurrences import Edge

LOAD, MULTIPLY, STORE = Cost("memory", 4, 20), Cost("matrix", 8, 16), Cost("memory", 4, 4)
UNITS = {"memory": 1, "matrix": 1}


def assert_holds(found: ModuloSchedule, costs: list[Cost], edges: list[Edge], units: dict[str, int]) -> None:
    for before, after, latency, distance in edges:
        assert found.start[after] + distance * found.interval >= found.start[before] + latency
    for unit, count in units.items():
        for clock in range(found.interval):
            busy = sum(
                (clock - start) % found.interval < cost.busy
                for start, cost in zip(found.start, costs, strict=True)
                if cost.unit == unit
            )
            assert busy <= count


def test_interval_is_what_the_busiest_unit_needs() -> None:
    costs = [LOAD, LOAD, MULTIPLY, STORE]
    edges: list[Edge] = [(0, 2, 20, 0), (1, 2, 20, 0), (2, 3, 16, 0)]
    found = modulo_schedule(costs, edges, UNITS)
    assert (found.interval, found.resource_bound, found.unit, found.refused) == (12, 12, "memory", ())
    assert_holds(found, costs, edges, UNITS)


def test_interval_is_what_the_longest_cycle_needs() -> None:
    costs = [MULTIPLY, MULTIPLY]
    edges: list[Edge] = [(0, 1, 16, 0), (1, 0, 16, 1)]
    found = modulo_schedule(costs, edges, UNITS)
    assert (found.interval, found.recurrence_bound, found.unit) == (32, 32, "")


def test_two_of_a_unit_halve_the_interval() -> None:
    assert modulo_schedule([MULTIPLY] * 4, [], {"matrix": 1}).interval == 32
    assert modulo_schedule([MULTIPLY] * 4, [], {"matrix": 2}).interval == 16


def test_what_stood_in_the_way_is_named() -> None:
    # The two loads have to start 8 clocks apart: in a pattern of 8 clocks both would want the same ones.
    costs, edges = [Cost("memory", 4, 4), Cost("memory", 4, 4)], [(0, 1, 8, 0), (1, 0, -8, 0)]
    found = modulo_schedule(costs, edges, UNITS)
    assert found.interval > found.bound == 8
    assert [interval for interval, _ in found.refused] == list(range(8, found.interval, 4))
    assert all(number in (0, 1) for _, number in found.refused)


def test_dependences_that_no_interval_allows_are_refused() -> None:
    with pytest.raises(ValueError, match="waits for itself"):
        modulo_schedule([LOAD, LOAD], [(0, 1, 4, 0), (1, 0, 4, 0)], UNITS)


def test_a_pattern_far_above_the_bound_is_found() -> None:
    # Pairs that have to start exactly 8 clocks apart, on one unit: few intervals have room for all of them.
    costs = [Cost("memory", 4, 4)] * 24
    edges: list[Edge] = []
    for first in range(0, 24, 2):
        edges += [(first, first + 1, 400, 0), (first + 1, first, -400, 0)]
    found = modulo_schedule(costs, edges, UNITS)
    assert found.interval > found.bound == 96
    assert_holds(found, costs, edges, UNITS)


def test_what_no_interval_holds_is_refused_after_a_fixed_number_of_tries() -> None:
    # Two operations of one unit that have to start at once.
    edges: list[Edge] = [(0, 1, 0, 0), (1, 0, 0, 0)]
    with pytest.raises(ValueError, match=r"operation 0 finds no place in patterns of 8 to \d+ clocks \(64 tried\)"):
        modulo_schedule([LOAD, LOAD, MULTIPLY], edges, UNITS)


def test_placements_of_long_loops_are_counted() -> None:
    # Each interval takes 6 placements of each operation in vain; 64 intervals would take ten times the budget.
    edges: list[Edge] = [(0, 1, 0, 0), (1, 0, 0, 0)]
    with pytest.raises(ValueError, match=r"finds no place in patterns of .* \(\d tried\)"):
        modulo_schedule([LOAD] * 1500, edges, UNITS)


def test_placements_that_look_at_many_dependences_are_fewer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(modulo, "_MOST_LOOKED_AT", 100)
    edges: list[Edge] = [(0, 1, 0, 0), (1, 0, 0, 0)]
    with pytest.raises(ValueError, match=r"finds no place in patterns of .* \(\d tried\)"):
        modulo_schedule([LOAD, LOAD, MULTIPLY], edges, UNITS)


def test_loads_come_no_earlier_than_their_use_needs() -> None:
    costs = [Cost("memory", 1, 2), Cost("matrix", 1, 1), Cost("matrix", 1, 1), Cost("matrix", 1, 1)]
    edges: list[Edge] = [(1, 2, 1, 0), (2, 3, 1, 0), (0, 3, 2, 0)]
    found = modulo_schedule(costs, edges, UNITS)
    assert found.start[3] - found.start[0] == 2


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_pattern_keeps_units_and_dependences(data: st.DataObject) -> None:
    kinds = st.sampled_from([LOAD, MULTIPLY, STORE, Cost("", 0, 2)])
    costs = data.draw(st.lists(kinds, min_size=2, max_size=9))
    numbers = st.integers(0, len(costs) - 1)
    edges: list[Edge] = []
    for before, after in data.draw(st.lists(st.tuples(numbers, numbers), max_size=12)):
        edges.append((before, after, costs[before].latency, 0 if before < after else data.draw(st.integers(1, 2))))
    found = modulo_schedule(costs, edges, UNITS)
    assert found.interval >= found.bound
    assert_holds(found, costs, edges, UNITS)
