"""Grids of more axes than a launch has: every workgroup has its own place in them."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tests.lower.gemms import AMD, MACHINES, NVIDIA
from wavespec.ir.kernel import Kernel
from wavespec.lower.fold_grid import FoldGrid
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


def lets(kernel: Kernel) -> list[str]:
    return [op["symbol"] for op in kernel.body if op.name == "let"]


def test_axes_of_a_launch_stay() -> None:
    kernel = lower(spec(2, 1, 0), NVIDIA)
    assert len(kernel.grid) == 3 and not lets(kernel)


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


def test_of_dims_that_share_an_axis_the_first_runs_fastest() -> None:
    kernel = lower(spec(0, 1, 0), NVIDIA, after=FoldGrid.name)
    sizes = {"C": 3, "D": 5, "E": 17}
    rows, columns = (extent.evaluate(sizes) for extent in kernel.grid)
    assert (rows, columns) == (3 * 2, 3)
    found: list[tuple[int, int]] = []
    for number in range(rows):
        known = {**sizes, "launch0": number, "launch1": 0}
        known |= {op["symbol"]: op["value"].evaluate(known) for op in kernel.body if op.name == "let"}
        found.append((known["wg0"], known["wg1"]))
    assert found == [(c, e) for e in range(2) for c in range(3)]


def test_an_axis_may_stay_empty() -> None:
    kernel = lower(spec(4, 0), NVIDIA, after=FoldGrid.name)
    x = np.ones((5, 20), np.float32)
    report = simulate(kernel, NVIDIA, {"x": x}, {"D": 5, "E": 20})
    assert report.ok and (report.tensors["y"] == 2).all()
