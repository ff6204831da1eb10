"""Tiles of a product whose columns are the rows of the matrix unit, in the list that all products of 8 and 16 bits share:
no race, and right results, partial tiles included."""

from __future__ import annotations

import pytest

from tests.kernels import subjects
from tests.sim.cases import lowered_case, run_case
from wavespec.schema.cases import TargetCase
from wavespec.schema.resolve import resolve_params
from wavespec.targets.machine import machines

(HOPPER,) = machines("sm_90")
BY_NAME = {subject.name: subject for subject in subjects("sm_90")}
ROWS = [80, 96, 112, 144, 176]
NAMES = ("matmul_bf16", "matmul_f8", "gemm_i8", "linear_residual")


def turned(name: str) -> dict[int, TargetCase]:
    """Cases for more rows than 64 whose rows are no rows of the matrix unit, by how many a tile has."""
    tiles = ((resolve_params(case.spec)["WAVE_M"], case) for case in BY_NAME[name].cases("sm_90"))
    return {rows: case for rows, case in tiles if rows > 64 and rows % 64}


def test_these_are_the_tiles() -> None:
    assert {name: sorted(turned(name)) for name in NAMES} == dict.fromkeys(NAMES, ROWS)


@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("name", NAMES)
def test_every_tile_is_right_without_a_race(name: str, rows: int) -> None:
    subject, case = BY_NAME[name], turned(name)[rows]
    most = case.spec.dims["M"].max
    sizes = subject.complete({"M": rows + 5 if most is None else most, "N": 136, "K": 272})
    inputs = subject.inputs(sizes)
    subject.check(inputs, run_case(subject, case, lowered_case(case, HOPPER), HOPPER, sizes, inputs), sizes)
