"""Grids of more axes than a launch has: every workgroup has its own place in them."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tests.lower.gemms import AMD, MACHINES, NVIDIA
from tests.lower.ir_text import Text, body_text, lines
from wavespec.lower.fold_grid import FoldGrid
from wavespec.lower.persist_workgroups import PersistWorkgroups
from wavespec.pipeline import lower
from wavespec.schema import KernelSpec, loads
from wavespec.sim.simt import simulate
from wavespec.targets.machine import Machine

TILES = {"A": 3, "B": 2, "C": 1, "D": 2, "E": 16}


def spec(*axes: int) -> KernelSpec:
    dims = list(TILES)[-len(axes) :]
    shape = ", ".join(dims)
    places = "".join(f"  - {{workgroup: {d}, tile: {TILES[d]}, axis: {a}}}\n" for d, a in zip(dims, axes, strict=True))
    return loads(
        f"""apiVersion: wavespec/v1
kind: Kernel
name: twice
dims: {{{", ".join(f"{dim}: {{}}" for dim in dims)}}}
tensors:
  x: {{shape: [{shape}], dtype: f32}}
  y: {{shape: [{shape}], dtype: f32, role: output}}
constraints:
{places}graph:
  - part: {{read: x}}
  - double: "part * 2"
  - {{write: double, to: y}}
""",
        "twice.wave.yaml",
    )


FOUR = Text("""
    thread kernel @k target sm_90 lanes 32
    symbol A in 0..64 by 1
    symbol B in 0..64 by 1
    symbol C in 0..64 by 1
    symbol D in 0..64 by 1
    symbol wg0 in 0..63 by 1
    symbol wg1 in 0..63 by 1
    symbol wg2 in 0..63 by 1
    symbol wg3 in 0..63 by 1
    plan "auto" stages 1 group 0
    grid [A]
    grid [B]
    grid [C]
    grid [D]
    memory @y : f32 (A: [A], B: [B], C: [C], D: [D]) global output
""")
ONE = """
    %one = constant {value = 1.0} : f32x1
    store %one {memory = "y", offset = [wg0*64 + wg1*32 + wg2*16 + wg3]}
"""


def folded(*changes: tuple[str, str]) -> tuple[list[str], str]:
    """The grid, and the operations in front."""
    kernel = FoldGrid()(FOUR.changed(*changes).kernel(ONE), NVIDIA)
    assert body_text(kernel).endswith(lines(ONE)[1:]), "what was there stays"
    return [str(extent) for extent in kernel.grid], body_text(kernel)[: -len(lines(ONE)[1:])]


def test_axes_of_a_launch_stay() -> None:
    kernel = FOUR.changed(("    grid [D]\n", ""), ("    symbol wg3 in 0..63 by 1\n", "")).kernel(
        ONE.replace(" + wg3", "")
    )
    assert FoldGrid()(kernel, NVIDIA) is kernel


def test_axes_beyond_the_third_join_it() -> None:
    assert folded() == (
        ["A", "B", "C*D"],
        lines("""
            let {symbol = "wg2", value = [launch2%C]}
            let {symbol = "wg3", value = [launch2//C]}
        """),
    )


def test_of_axes_that_share_one_the_first_runs_fastest() -> None:
    assert folded(("grid [B]", "grid [B] joined")) == (
        ["A*B", "C", "D"],
        lines("""
            let {symbol = "wg0", value = [launch0%A]}
            let {symbol = "wg1", value = [launch0//A]}
            let {symbol = "wg2", value = [launch1]}
            let {symbol = "wg3", value = [launch2]}
        """),
    )


def test_places_with_one_tile_need_no_symbol() -> None:
    kernel = FOUR.changed(("    symbol wg2 in 0..63 by 1\n", "")).kernel(ONE.replace(" + wg2*16", ""))
    assert 'symbol = "wg2"' not in body_text(FoldGrid()(kernel, NVIDIA))


def test_workgroups_that_walk_over_tiles_say_themselves_where_they_are() -> None:
    kernel = FOUR.changed(("group 0", "group 0 persistent")).kernel(ONE)
    walking = PersistWorkgroups()(kernel, NVIDIA)
    assert FoldGrid()(walking, NVIDIA) is walking


@pytest.mark.parametrize("axes", [(4, 3, 2, 1, 0), (0, 1, 2, 3, 4), (3, 2, 4, 0, 1)], ids=str)
def test_every_place_of_five_axes_has_one_workgroup(axes: tuple[int, ...]) -> None:
    kernel = lower(spec(*axes), AMD)
    sizes = {"A": 7, "B": 3, "C": 2, "D": 5, "E": 17}
    assert len(kernel.grid) == 3
    grid = [extent.evaluate(sizes) for extent in kernel.grid]
    places: list[tuple[int, ...]] = []
    for one in itertools.product(*map(range, grid)):
        known = {**sizes, "wg0": one[0], "wg1": one[1], "launch2": one[2]}
        for op in kernel.body:
            if op.name == "let":
                known[op["symbol"]] = op["value"].evaluate(known)
        places.append(tuple(known[f"wg{axis}"] for axis in range(5)))
    tiles = [-(-sizes[dim] // TILES[dim]) for _, dim in sorted(zip(axes, TILES, strict=True))]
    assert sorted(places) == list(itertools.product(*map(range, tiles)))


@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.variant)
@pytest.mark.parametrize("sizes", [(7, 3, 2, 5, 17), (1, 1, 1, 1, 1), (2, 0, 3, 1, 4)], ids=str)
def test_five_axes_compute_every_element(sizes: tuple[int, ...], machine: Machine) -> None:
    kernel = lower(spec(4, 3, 2, 1, 0), machine)
    x = np.random.default_rng(0).normal(size=sizes).astype(np.float32)
    report = simulate(kernel, machine, {"x": x}, dict(zip(TILES, sizes, strict=True)))
    assert report.ok, report.render()
    assert (report.tensors["y"] == 2 * x).all()


@pytest.mark.parametrize(
    "axes", [(0, 0), (1, 1, 1), (0, 2, 0), (1, 0, 1, 0), (2, 2, 2, 2, 2), (0, 3, 1, 3, 0)], ids=str
)
@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.variant)
def test_dims_that_share_an_axis_compute_every_element(axes: tuple[int, ...], machine: Machine) -> None:
    kernel = lower(spec(*axes), machine)
    assert len(kernel.grid) == min(3, max(axes) + 1) and not kernel.joined
    sizes = (7, 3, 2, 5, 17)[-len(axes) :]
    x = np.random.default_rng(0).normal(size=sizes).astype(np.float32)
    report = simulate(kernel, machine, {"x": x}, dict(zip(list(TILES)[-len(axes) :], sizes, strict=True)))
    assert report.ok, report.render()
    assert (report.tensors["y"] == 2 * x).all()


def test_an_axis_may_stay_empty() -> None:
    kernel = lower(spec(4, 0), NVIDIA, after=FoldGrid.name)
    x = np.ones((5, 20), np.float32)
    report = simulate(kernel, NVIDIA, {"x": x}, {"D": 5, "E": 20})
    assert report.ok and (report.tensors["y"] == 2).all()
