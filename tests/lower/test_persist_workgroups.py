"""Persistent workgroups: every tile is computed once, whatever the grid and the bands."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.lower.gemms import AMD, NVIDIA, Gemm
from tests.lower.hopper_gemms import hopper_gemm
from wavespec.diagnostics import WavespecError
from wavespec.ir.expr import const, symbol
from wavespec.ir.kernel import Kernel
from wavespec.lower.persist_workgroups import PersistWorkgroups
from wavespec.lower.tile_walk import in_bands

STAGE = PersistWorkgroups.name


def kernel_of(schedule: str) -> Kernel:
    return hopper_gemm(schedule=f"waves: {{producers: 1}}, workgroups: {schedule}").lowered(NVIDIA, STAGE)


def test_one_workgroup_per_processor_walks_over_the_tiles() -> None:
    kernel = kernel_of("{persistent: true, group: 1}")
    (workers,) = kernel.grid
    sizes = {"M": 128 * 20, "N": 64 * 30, "K": 8}
    assert workers.evaluate(sizes) == NVIDIA.processors
    assert workers.evaluate({"M": 1, "N": 64, "K": 8}) == 1, "no more workgroups than tiles"
    *_, loop = kernel.body
    known = {"tiles": 600, "workers": NVIDIA.processors}
    rounds = [loop["upper"].evaluate({**known, "workgroup": number}) for number in range(NVIDIA.processors)]
    assert sum(rounds) == 20 * 30 and max(rounds) - min(rounds) == 1


def test_the_grid_stays_where_nothing_is_asked() -> None:
    assert len(kernel_of("{group: 4}").grid) == 2


def place_of(tile: int, rows: int, columns: int, group: int) -> tuple[int, int]:
    """The row and column that the bands give to a tile."""
    symbols: dict[str, int] = {"tile": tile}
    for name, value in in_bands(symbol("tile", 0, None), {"wg0": const(rows), "wg1": const(columns)}, group).items():
        symbols[name] = value.evaluate(symbols)
    return symbols["wg0"], symbols["wg1"]


@pytest.mark.slow
@given(st.integers(1, 9), st.integers(1, 9), st.integers(1, 10))
def test_every_tile_has_one_place_and_every_place_one_tile(rows: int, columns: int, group: int) -> None:
    places = [place_of(tile, rows, columns, group) for tile in range(rows * columns)]
    assert sorted(places) == [(row, column) for row in range(rows) for column in range(columns)]


def test_a_band_of_rows_is_done_column_by_column() -> None:
    assert [place_of(tile, 6, 3, 4) for tile in range(8)] == [(row, column) for column in (0, 1) for row in range(4)]


def test_a_machine_without_a_number_of_processors_refuses() -> None:
    gemm = Gemm(schedule="workgroups: {persistent: true}")
    with pytest.raises(WavespecError) as caught:
        gemm.lowered(AMD)
    assert caught.value.code == "persistence-not-possible"


@given(st.tuples(*[st.integers(1, 4)] * 4), st.integers(1, 5))
def test_bands_go_plane_by_plane(grid: tuple[int, ...], group: int) -> None:
    found: list[tuple[int, ...]] = []
    for tile in range(math.prod(grid)):
        symbols: dict[str, int] = {"tile": tile}
        for name, value in in_bands(
            symbol("tile", 0, None), {f"wg{axis}": const(extent) for axis, extent in enumerate(grid)}, group
        ).items():
            symbols[name] = value.evaluate(symbols)
        found.append(tuple(symbols[f"wg{axis}"] for axis in range(len(grid))))
    assert sorted(found) == list(itertools.product(*map(range, grid)))
    plane = grid[0] * grid[1]
    assert [place[:2] for place in found[:plane]] == [place_of(tile, grid[0], grid[1], group) for tile in range(plane)]
    assert all(len({place[2:] for place in found[at : at + plane]}) == 1 for at in range(0, len(found), plane))
