"""A greedy order: units are never idle for nothing, the longest path goes first."""

from __future__ import annotations

from wavespec.schedule.costs import Cost
from wavespec.schedule.list_schedule import list_schedule

LOAD, MULTIPLY = Cost("memory", 2, 10), Cost("matrix", 4, 4)
UNITS = {"memory": 1, "matrix": 1}


def test_what_others_wait_for_longest_goes_first() -> None:
    # The second load feeds a chain of products, the first a single one.
    start = list_schedule([LOAD, LOAD, MULTIPLY, MULTIPLY, MULTIPLY], [(0, 2, 10), (1, 3, 10), (3, 4, 4)], UNITS)
    assert start[1] < start[0] and start == [2, 0, 14, 10, 18]


def test_a_busy_unit_is_waited_for() -> None:
    assert list_schedule([LOAD, LOAD, LOAD], [], UNITS) == [0, 2, 4]
    assert sorted(list_schedule([LOAD, LOAD, LOAD], [], {"memory": 2})) == [0, 0, 2]


def test_operations_without_a_unit_wait_for_values_only() -> None:
    free = Cost("", 0, 0)
    assert list_schedule([LOAD, free, free], [(0, 1, 10), (1, 2, 0)], UNITS) == [0, 10, 10]


def test_products_run_under_loads_that_they_do_not_need() -> None:
    start = list_schedule([LOAD, MULTIPLY, LOAD, MULTIPLY], [(0, 1, 10), (2, 3, 10)], UNITS)
    assert start == [0, 10, 2, 14]
