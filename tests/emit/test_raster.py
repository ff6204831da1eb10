"""The order of workgroups: every tile once, neighbours to the same cache."""

from __future__ import annotations

import itertools
import re

import pytest

from wavespec.emit.mlir_text import MlirText
from wavespec.emit.raster import walked_ids

_VERBS = {
    "addi": int.__add__,
    "subi": int.__sub__,
    "muli": int.__mul__,
    "divui": int.__floordiv__,
    "remui": int.__mod__,
    "minsi": min,
    "minui": min,
}


def walked(*grid: int, group: int, chiplets: int) -> list[tuple[int, ...]]:
    """The tile of each workgroup, in the order in which the machine starts them."""
    text = MlirText()
    names = [f"%e{axis}" for axis in range(len(grid))], [f"%i{axis}" for axis in range(len(grid))]
    places = walked_ids(text, *names, group, chiplets)
    found: list[tuple[int, ...]] = []
    for last_first in itertools.product(*map(range, reversed(grid))):
        values = dict(zip([*names[0], *names[1]], [*grid, *reversed(last_first)], strict=True))
        for line in text.lines():
            name, what = line.split(" = ")
            if constant := re.match(r"arith\.constant (\d+) ", what):
                values[name] = int(constant[1])
            else:
                verb, left, right = re.findall(r"arith\.(\w+) (%\w+), (%\w+)", what)[0]
                values[name] = _VERBS[verb](values[left], values[right])
        found.append(tuple(values[place] for place in places))
    return found


@pytest.mark.parametrize("chiplets", [1, 2, 8])
@pytest.mark.parametrize("group", [1, 4, 8])
@pytest.mark.parametrize("tiles", [(1, 1), (7, 3), (8, 5), (19, 4), (16, 16)])
def test_every_tile_is_visited_once(tiles: tuple[int, int], group: int, chiplets: int) -> None:
    assert sorted(walked(*tiles, group=group, chiplets=chiplets)) == [
        (x, y) for x in range(tiles[0]) for y in range(tiles[1])
    ]


@pytest.mark.parametrize("tiles", [(16, 16), (19, 4), (7, 3)])
def test_what_one_chiplet_gets_is_consecutive_where_there_is_only_one(tiles: tuple[int, int]) -> None:
    alone, shared = walked(*tiles, group=4, chiplets=1), walked(*tiles, group=4, chiplets=8)
    dealt = [shared[number::8] for number in range(8)]
    assert [tile for part in dealt for tile in part] == alone


def test_tiles_of_one_chiplet_share_rows_and_columns() -> None:
    for number in range(8):
        part = walked(16, 16, group=4, chiplets=8)[number::8]
        assert len({x for x, _ in part}) == 4 and len({y for _, y in part}) == 8, "a block of the result"


@pytest.mark.parametrize("chiplets", [1, 8])
@pytest.mark.parametrize("group", [1, 4])
@pytest.mark.parametrize("tiles", [(5, 3, 4), (9, 2, 1), (1, 7, 3)])
def test_every_tile_of_three_axes_is_visited_once_plane_by_plane(
    tiles: tuple[int, int, int], group: int, chiplets: int
) -> None:
    found = walked(*tiles, group=group, chiplets=chiplets)
    assert sorted(found) == list(itertools.product(*map(range, tiles)))
    if chiplets == 1:
        plane = tiles[0] * tiles[1]
        assert [place[2] for place in found] == [number // plane for number in range(len(found))]
        assert [place[:2] for place in found[:plane]] == walked(*tiles[:2], group=group, chiplets=1)


@pytest.mark.parametrize("tiles", [1, 7, 8, 21])
def test_chiplets_get_neighbours_of_one_axis(tiles: int) -> None:
    found = walked(tiles, group=1, chiplets=8)
    assert [place for number in range(8) for place in found[number::8]] == [(tile,) for tile in range(tiles)]
