"""The order of workgroups: every tile once, neighbours to the same cache."""

from __future__ import annotations

import re

import pytest

from wavespec.emit.mlir_text import MlirText
from wavespec.emit.raster import banded_ids

_VERBS = {
    "addi": int.__add__,
    "subi": int.__sub__,
    "muli": int.__mul__,
    "divui": int.__floordiv__,
    "remui": int.__mod__,
    "minsi": min,
    "minui": min,
}


def walked(rows: int, columns: int, group: int, chiplets: int) -> list[tuple[int, int]]:
    """The tile of each workgroup, in the order in which the machine starts them."""
    text = MlirText()
    row, column = banded_ids(text, ("%rows", "%columns"), ("%x", "%y"), group, chiplets)
    found: list[tuple[int, int]] = []
    for number in range(rows * columns):
        values = {"%rows": rows, "%columns": columns, "%x": number % rows, "%y": number // rows}
        for line in text.lines():
            name, what = line.split(" = ")
            if constant := re.match(r"arith\.constant (\d+) ", what):
                values[name] = int(constant[1])
            else:
                verb, left, right = re.findall(r"arith\.(\w+) (%\w+), (%\w+)", what)[0]
                values[name] = _VERBS[verb](values[left], values[right])
        found.append((values[row], values[column]))
    return found


@pytest.mark.parametrize("chiplets", [1, 2, 8])
@pytest.mark.parametrize("group", [1, 4, 8])
@pytest.mark.parametrize("tiles", [(1, 1), (7, 3), (8, 5), (19, 4), (16, 16)])
def test_every_tile_is_visited_once(tiles: tuple[int, int], group: int, chiplets: int) -> None:
    assert sorted(walked(*tiles, group, chiplets)) == [(x, y) for x in range(tiles[0]) for y in range(tiles[1])]


@pytest.mark.parametrize("tiles", [(16, 16), (19, 4), (7, 3)])
def test_what_one_chiplet_gets_is_consecutive_where_there_is_only_one(tiles: tuple[int, int]) -> None:
    alone, shared = walked(*tiles, 4, 1), walked(*tiles, 4, 8)
    dealt = [shared[number::8] for number in range(8)]
    assert [tile for part in dealt for tile in part] == alone


def test_tiles_of_one_chiplet_share_rows_and_columns() -> None:
    for number in range(8):
        part = walked(16, 16, 4, 8)[number::8]
        assert len({x for x, _ in part}) == 4 and len({y for _, y in part}) == 8, "a block of the result"
