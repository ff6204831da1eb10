"""Persistent workgroups: every tile is computed once, whatever the grid and the bands."""

from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.lower.gemms import AMD, NVIDIA
from tests.lower.hopper_gemms import hopper_gemm
from tests.lower.ir_text import Text, lines
from wavespec.diagnostics import WavespecError
from wavespec.ir.expr import const, symbol
from wavespec.lower.persist_workgroups import PersistWorkgroups
from wavespec.lower.tile_walk import in_bands

STAGE = PersistWorkgroups.name


TILES = Text("""
    thread kernel @k target sm_90 lanes 32
    symbol A in 0..64 by 1
    symbol B in 0..64 by 1
    symbol wg0 in 0..63 by 1
    symbol wg1 in 0..63 by 1
    plan "auto" stages 1 group 8 persistent
    grid [A]
    grid [B]
    memory @y : f32 (A: [A], B: [B]) global output
""")
COPIED = hopper_gemm(schedule="waves: {producers: 1}, workgroups: {persistent: true}").lowered(NVIDIA, STAGE)
"""Whose waves do not load ahead."""
ONE = """
    %one = constant {value = 1.0} : f32x1
    store %one {memory = "y", offset = [wg0*64 + wg1]}
"""


def test_one_workgroup_per_processor_walks_over_bands_of_tiles() -> None:
    assert TILES.after(PersistWorkgroups(), NVIDIA, ONE) == lines("""
        let {symbol = "tiles", value = [A*B]}
        let {symbol = "workers", value = [min(tiles, 132)]}
        for {induction = "round", lower = [0], step = [1], unroll = 1, upper = [(tiles - workgroup + 131)//132]} () do
          let {symbol = "tile", value = [round*132 + workgroup]}
          let {symbol = "band_tiles", value = [B*8]}
          let {symbol = "band_start", value = [(tile//band_tiles)*8]}
          let {symbol = "band_place", value = [tile%band_tiles]}
          let {symbol = "band_height", value = [max(min(A - band_start, 8), 1)]}
          let {symbol = "wg0", value = [band_start + band_place%band_height]}
          let {symbol = "wg1", value = [band_place//band_height]}
          %one = constant {value = 1.0} : f32x1
          store %one {memory = "y", offset = [wg0*64 + wg1]}
          yield
        end
    """)


def test_tiles_are_shared_out_evenly() -> None:
    kernel = PersistWorkgroups()(TILES.kernel(ONE), NVIDIA)
    (workers,) = kernel.grid
    assert workers.evaluate({"A": 20, "B": 30}) == NVIDIA.processors
    assert workers.evaluate({"A": 1, "B": 1}) == 1, "no more workgroups than tiles"
    *_, loop = kernel.body
    known = {"tiles": 600, "workers": NVIDIA.processors}
    rounds = [loop["upper"].evaluate({**known, "workgroup": number}) for number in range(NVIDIA.processors)]
    assert sum(rounds) == 20 * 30 and max(rounds) - min(rounds) == 1


def test_a_schedule_may_say_how_many_there_are() -> None:
    kernel = PersistWorkgroups()(TILES.changed(("persistent", "persistent workers 5")).kernel(ONE), NVIDIA)
    assert [str(extent) for extent in kernel.grid] == ["min(A*B, 5)"]


def test_the_grid_stays_where_nothing_is_asked() -> None:
    kernel = TILES.changed((" persistent", "")).kernel(ONE)
    assert PersistWorkgroups()(kernel, NVIDIA) is kernel


def test_a_machine_without_a_number_of_processors_refuses() -> None:
    with pytest.raises(WavespecError) as caught:
        PersistWorkgroups()(TILES.kernel(ONE), AMD)
    assert caught.value.code == "persistence-not-possible"


def test_a_spec_gets_there() -> None:
    assert len(COPIED.grid) == 1 and [op["induction"] for op in COPIED.body if op.name == "for"] == ["round"]


def place_of(tile: int, rows: int, columns: int, group: int) -> tuple[int, int]:
    """The row and column that the bands give to a tile."""
    symbols: dict[str, int] = {"tile": tile}
    for name, value in in_bands(symbol("tile", 0, None), {"wg0": const(rows), "wg1": const(columns)}, group).items():
        symbols[name] = value.evaluate(symbols)
    return symbols["wg0"], symbols["wg1"]


@given(st.integers(1, 9), st.integers(1, 9), st.integers(1, 10))
def test_every_tile_has_one_place_and_every_place_one_tile(rows: int, columns: int, group: int) -> None:
    places = [place_of(tile, rows, columns, group) for tile in range(rows * columns)]
    assert sorted(places) == [(row, column) for row in range(rows) for column in range(columns)]


def test_a_band_of_rows_is_done_column_by_column() -> None:
    assert [place_of(tile, 6, 3, 4) for tile in range(8)] == [(row, column) for column in (0, 1) for row in range(4)]


def test_tiles_of_one_column_are_its_rows() -> None:
    """No quotient of sizes stands in front of the first copy of such a kernel."""
    tile, grid = symbol("tile", 0, None), {"wg0": symbol("A", 0, 64), "wg1": symbol("B", 0, 1)}
    assert in_bands(tile, grid, 8) == in_bands(tile, grid, 1) == {"wg0": tile, "wg1": const(0)}


@given(st.integers(0, 900))
def test_fewer_tiles_than_processors_are_one_round(tiles: int) -> None:
    """How far apart tiles of a workgroup are is a number, whatever there is to do: nothing is divided by a size."""
    *_, loop = COPIED.body
    places = [op["value"] for op in loop.walk() if op.name == "let" and op["symbol"] == "tile"]
    found: list[int] = []
    for number in range(min(tiles, NVIDIA.processors)):
        known = {"tiles": tiles, "workgroup": number}
        rounds = range(loop["upper"].evaluate(known))
        found += [place.evaluate({**known, "round": turn}) for place in places for turn in rounds]
    assert sorted(found) == list(range(tiles))


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
