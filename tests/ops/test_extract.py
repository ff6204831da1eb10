"""`extract`: every register has the element that another layout wants there, and nothing moves where runs agree."""

from __future__ import annotations

import pytest

from wavespec.ir.expr import symbol
from wavespec.ir.layout import Layout, RegisterAxis
from wavespec.ops.extract import registers_of

LANE = symbol("lane", 0, 31)
BASE = (("m", LANE // 4), ("n", LANE % 4 * 2))
SUMS = Layout(BASE, (RegisterAxis(2, (("m", 8),)), RegisterAxis(2, (("n", 1),))), 2).repeated("n", 4, 8)
"""16 x 32 sums, in fragments of 16 x 8."""
FACTOR = Layout(BASE, (RegisterAxis(2, (("n", 8),)), RegisterAxis(2, (("m", 8),)), RegisterAxis(2, (("n", 1),))), 3)
"""16 x 16 elements of a factor."""


def places(layout: Layout, origin: int = 0) -> list[tuple[int, int]]:
    return [(at["m"], at["n"] + origin) for at in layout.register_offsets()]


@pytest.mark.parametrize("origin", [0, 16])
def test_every_register_has_the_element_that_is_wanted(origin: int) -> None:
    known = places(SUMS)
    registers = registers_of(SUMS, FACTOR, {"m": 0, "n": origin})
    assert [known[number] for number in registers] == places(FACTOR, origin)
    assert registers == list(range(registers[0], registers[0] + 8)), "two fragments one behind the other: one run"


def test_order_of_registers_may_differ() -> None:
    turned = Layout(BASE, (RegisterAxis(2, (("n", 1),)), RegisterAxis(2, (("m", 8),))), 2)
    assert registers_of(SUMS, turned, {"m": 0, "n": 8}) == [4, 6, 5, 7]


@pytest.mark.parametrize(
    ("wanted", "origin"),
    [
        (FACTOR.shifted({"m": 8}), 0),
        (FACTOR, 24),
        (Layout((("m", LANE % 8), ("n", LANE // 8 * 2)), FACTOR.axes, 3), 0),
    ],
    ids=["other rows", "beyond the tile", "other lanes"],
)
def test_elements_of_other_lanes_are_refused(wanted: Layout, origin: int) -> None:
    with pytest.raises(KeyError):
        registers_of(SUMS, wanted, {"m": 0, "n": origin})
