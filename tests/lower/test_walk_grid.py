"""The order of workgroups: every tile once, neighbours to the same cache; the operations say so themselves."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from tests.lower.gemms import AMD, NVIDIA
from wavespec.ir.kernel import Kernel
from wavespec.ir.parser import parse_kernel
from wavespec.ir.printer import print_kernel
from wavespec.lower.walk_grid import WalkGrid
from wavespec.pipeline import lower
from wavespec.schema import loads
from wavespec.sim.simt import simulate
from wavespec.targets.machine import Machine

GRID = """thread kernel @walk target test lanes 1
symbol A in 0..1000 by 1
symbol B in 0..1000 by 1
symbol C in 0..1000 by 1
{symbols}plan "auto" stages 1 group {group}
{grid}memory @x : f32 (A: [A], B: [B], C: [C]) global output
{{
}}
"""


def kernel(axes: int, group: int) -> Kernel:
    symbols = "".join(f"symbol wg{axis} in 0..1000 by 1\n" for axis in range(axes))
    grid = "".join(f"grid [{extent}]\n" for extent in "ABC"[:axes])
    return parse_kernel(GRID.format(symbols=symbols, group=group, grid=grid))


def walked(*grid: int, group: int, chiplets: int) -> list[tuple[int, ...]]:
    """The tile of each workgroup, in the order in which the machine starts them."""
    machine = replace(NVIDIA, raster_group=0, chiplets=chiplets)
    plan = replace(kernel(len(grid), group).distribution, chiplets=True if chiplets > 1 else None)
    after = WalkGrid()(replace(kernel(len(grid), group), distribution=plan), machine)
    found: list[tuple[int, ...]] = []
    for last_first in itertools.product(*map(range, reversed(grid))):
        ids = tuple(reversed(last_first))
        known = dict(zip("ABC", grid, strict=False)) | {f"id{axis}": place for axis, place in enumerate(ids)}
        known |= {f"wg{axis}": place for axis, place in enumerate(ids)}
        for op in after.body:
            known[op["symbol"]] = op["value"].evaluate(known)
        found.append(tuple(known[f"wg{axis}"] for axis in range(len(grid))))
    return found


@pytest.mark.parametrize("chiplets", [1, 2, 8])
@pytest.mark.parametrize("group", [1, 4, 8])
@pytest.mark.parametrize("tiles", [(1, 1), (7, 3), (8, 5), (19, 4), (16, 16)])
def test_every_tile_is_visited_once(tiles: tuple[int, int], group: int, chiplets: int) -> None:
    found = walked(*tiles, group=group, chiplets=chiplets)
    assert sorted(found) == list(itertools.product(*map(range, tiles)))
    if chiplets == 1:
        together = found[: group * tiles[1]]
        assert {x for x, _ in together} == set(range(min(group, tiles[0]))), "a band of rows"


def test_one_row_of_tiles_is_walked_along_its_columns() -> None:
    """Few rows: to find a place in a band takes two divisions in front of everything else."""
    text = print_kernel(kernel(2, 8)).replace("symbol A in 0..1000", "symbol A in 0..1")
    after = WalkGrid()(parse_kernel(text), replace(NVIDIA, raster_group=8, chiplets=1))
    values = {op["symbol"]: op["value"] for op in after.body}
    divisions = [
        values[name] for name in ("number", "wg0", "wg1") if "//" in str(values[name]) or "%" in str(values[name])
    ]
    assert not divisions and not any(name.startswith("band") for name in values)
    for place in range(7):
        known = {"A": 1, "B": 7, "id0": 0, "id1": place}
        for name, value in values.items():
            known[name] = int(value.evaluate(known))
        assert (known["wg0"], known["wg1"]) == (0, place)


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


def test_a_launch_that_needs_no_order_stays_as_it_is() -> None:
    one = kernel(1, 4)
    assert WalkGrid()(one, NVIDIA) is one, "bands have two axes"
    two = kernel(2, 0)
    assert WalkGrid()(two, replace(NVIDIA, raster_group=0)) is two


def test_bands_of_one_row_take_one_division() -> None:
    """A group of 1 is a row of tiles after the other, and its place a quotient and a remainder by one number."""
    values = {op["symbol"]: str(op["value"]) for op in WalkGrid()(kernel(2, 1), NVIDIA).body}
    assert (values["band_tiles"], values["wg0"], values["wg1"]) == ("B", "number//band_tiles", "number%band_tiles")
    assert set(values) == {"number", "band_tiles", "wg0", "wg1"}


def test_the_kernel_still_prints_and_parses() -> None:
    after = WalkGrid()(kernel(2, 4), NVIDIA)
    assert print_kernel(parse_kernel(print_kernel(after))) == print_kernel(after)


SPEC = """
apiVersion: wavespec/v1
kind: Kernel
name: twice
dims: {M: {}, N: {}}
tensors: {x: {shape: [M, N], dtype: f32}, y: {shape: [M, N], dtype: f32, role: output}}
constraints: [{workgroup: M, tile: 2, axis: 0}, {workgroup: N, tile: 16, axis: 1}]
graph: [{a: {read: x}}, {b: {mul: [a, 2]}}, {write: b, to: y}]
"""


@pytest.mark.parametrize("machine", [NVIDIA, AMD], ids=lambda machine: machine.variant)
@pytest.mark.parametrize("sizes", [(1, 1), (37, 50), (64, 0)], ids=str)
def test_simulated_workgroups_walk_like_those_of_the_machine(sizes: tuple[int, int], machine: Machine) -> None:
    made = lower(loads(SPEC), machine)
    x = np.random.default_rng(0).normal(size=sizes).astype(np.float32)
    report = simulate(made, machine, {"x": x}, dict(zip("MN", sizes, strict=True)))
    assert report.ok, report.render()
    assert (report.tensors["y"] == 2 * x).all()
