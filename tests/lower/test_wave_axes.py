"""Waves in another order: other numbers, the same result."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.lower.gemms import AMD, MACHINES, Gemm, run
from wavespec.lower.assign_tiles import AssignTiles
from wavespec.pipeline import lower
from wavespec.schema import KernelSpec, loads
from wavespec.targets.machine import Machine

GEMM = Gemm(tile=(64, 64, 32), wave=(32, 16))


def spec(m: int, n: int, gemm: Gemm = GEMM) -> KernelSpec:
    text = gemm.text.replace("{wave: M, tile: 32}", f"{{wave: M, tile: 32, axis: {m}}}")
    return loads(text.replace("{wave: N, tile: 16}", f"{{wave: N, tile: 16, axis: {n}}}"), "gemm.wave.yaml")


@pytest.mark.parametrize(("m", "n", "first"), [(0, 0, "M"), (1, 0, "M"), (0, 1, "N"), (4, 3, "M"), (2, 4, "N")])
def test_waves_along_the_lowest_axis_are_next_to_each_other(m: int, n: int, first: str) -> None:
    waves = lower(spec(m, n), AMD, after=AssignTiles.name).waves
    assert waves[0][0] == f"wave_{first}" and dict(waves) == {"wave_M": 2, "wave_N": 4}


@pytest.mark.rare
@pytest.mark.parametrize("schedule", ["", "auto: modulo"])
@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.variant)
def test_the_order_of_waves_changes_no_result(machine: Machine, schedule: str) -> None:
    gemm = replace(GEMM, tile=(192, 128, 64)) if machine.lanes == 1 else replace(GEMM, stages=2, schedule=schedule)
    report, expected = run(spec(0, 1, gemm), machine, {"M": 70, "N": 90, "K": 72})
    assert report.ok, report.render()
    assert (report.tensors["c"] == expected).all()
