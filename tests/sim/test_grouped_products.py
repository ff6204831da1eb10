"""Tiles that end where values say, by waves that only copy: right for any groups, without a race, and mistakes are found."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import yaml

from tests.kernels import subjects
from tests.sim.planted_bugs import Bug, altered, dropped
from wavespec.ir.expr import const
from wavespec.ir.kernel import Kernel
from wavespec.pipeline import lower
from wavespec.schema import loads
from wavespec.schema.reading.spec_to_yaml import dump_yaml
from wavespec.sim.findings import SimulationReport
from wavespec.sim.simt import simulate
from wavespec.targets.machine import Machine, machines


def few(processors: int) -> Machine:
    """A machine whose workgroups walk over tiles of several groups."""
    return replace(machines("sm_90")[0], processors=processors, clusters={2: 2})


FEW = few(3)
TILES = {
    "two waves": {"BLOCK_M": 128, "BLOCK_N": 64, "BLOCK_K": 64, "WAVE_M": 64, "WAVE_N": 64},
    "two tiles of a wave": {"BLOCK_M": 128, "BLOCK_N": 32, "BLOCK_K": 64, "WAVE_M": 128, "WAVE_N": 32},
    "in turns": {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 64, "WAVE_M": 64, "WAVE_N": 64},
    "clusters": {"BLOCK_M": 64, "BLOCK_N": 64, "BLOCK_K": 64, "WAVE_M": 64, "WAVE_N": 64},
    "turned": {"BLOCK_M": 16, "BLOCK_N": 64, "BLOCK_K": 128, "WAVE_M": 16, "WAVE_N": 64},
    "last round shared": {"BLOCK_M": 128, "BLOCK_N": 64, "BLOCK_K": 64, "WAVE_M": 64, "WAVE_N": 64},
}
GROUPS = {
    "uneven": (0, 131, 139, 300),
    "empty": (0, 0, 70, 70, 70, 200, 200),
    "whole tiles": (0, 128, 384),
    "rows of no group": (5, 40, 40, 260),
    "none": (0,),
}
N, K, ROWS_BEHIND = 72, 136, 3


@cache
def kernel(tile: str, processors: int = 3) -> Kernel:
    """Of the case for rows that boxes can copy, with small tiles."""
    (subject,) = (one for one in subjects("sm_90") if one.name == "grouped_gemm")
    spec: dict[str, Any] = yaml.safe_load(dump_yaml(subject.cases("sm_90")[-2].spec))
    spec["params"] |= TILES[tile]
    waves = {"producers": 1, "order": "ping_pong" if tile == "in turns" else "together"}
    workgroups = {"group": 2, "persistent": True, "cluster": 2 if tile == "clusters" else 1}
    workgroups |= {"last_round": 8} if tile == "last round shared" else {}
    spec["schedule"] |= {"stages": 3, "waves": waves, "workgroups": workgroups}
    return lower(loads(yaml.safe_dump(spec, sort_keys=False), "grouped_gemm.wave.yaml"), few(processors))


def run(lowered: Kernel, offsets: Sequence[int], machine: Machine = FEW) -> tuple[SimulationReport, np.ndarray]:
    """What the kernel does, and the product of each row with the weights of its group; 0 without one."""
    random = np.random.default_rng(0)
    rows, groups = offsets[-1] + ROWS_BEHIND, len(offsets) - 1
    x = random.integers(-4, 5, (rows, K)).astype(ml_dtypes.bfloat16)
    w = random.integers(-4, 5, (groups, N, K)).astype(ml_dtypes.bfloat16)
    right = np.zeros((rows, N))
    for group, (start, end) in enumerate(itertools.pairwise(offsets)):
        right[start:end] = x[start:end].astype(np.float64) @ w[group].astype(np.float64).T
    sizes = {"T": rows, "M": rows, "N": N, "K": K, "B": len(offsets), "G": groups}
    return simulate(lowered, machine, {"x": x, "w": w, "offsets": np.array(offsets, np.int32)}, sizes), right


def found(report: SimulationReport, right: np.ndarray) -> set[str]:
    """Kinds of findings, and ``wrong`` for a result that is not right."""
    exact = np.array_equal(report.tensors["y"], right.astype(ml_dtypes.bfloat16))
    return report.kinds() | (set() if exact else {"wrong"})


@pytest.mark.parametrize(
    "tile", [next(iter(TILES)), *(pytest.param(tile, marks=pytest.mark.rare) for tile in list(TILES)[1:])]
)
@pytest.mark.parametrize("groups", GROUPS)
def test_each_row_is_multiplied_by_the_weights_of_its_group(tile: str, groups: str) -> None:
    report, right = run(kernel(tile), GROUPS[groups])
    assert found(report, right) == set(), report.render()


@pytest.mark.parametrize("groups", GROUPS)
@pytest.mark.parametrize(
    "processors", [3, 5, pytest.param(7, marks=pytest.mark.rare), pytest.param(9, marks=pytest.mark.rare)]
)
def test_workgroups_share_out_the_last_round_of_all_groups(processors: int, groups: str) -> None:
    """Of 4 to 8 tiles: a round and one or two of 3 and 5; of 7 and 9 no round, or one and one tile."""
    report, right = run(kernel("last round shared", processors), GROUPS[groups], few(processors))
    assert found(report, right) == set(), report.render()


BUGS: dict[str, tuple[Bug, str]] = {
    "box of rows that starts a row late": (
        altered("bulk_copy", "corner", lambda at: (at[0] + 1, at[1]), source="x"),
        "wrong",
    ),
    "weights of the next group": (altered("bulk_copy", "corner", lambda at: (at[0] + 1, *at[1:]), source="w"), "wrong"),
    "box stored where a tile is not whole": (altered("for", "upper", lambda _: const(1), once=True), "output-conflict"),
    "tiles of a group that are left out": (
        altered("for", "upper", lambda upper: upper - 1, counts_on=True),
        "wrong",
    ),
    "rounds that are not counted on": (
        altered("let", "value", lambda _: const(0), symbol="done_at_K"),
        "signal-overrun",
    ),
    "tiles of groups before that are forgotten": (altered("coordinates", "places", lambda _: (const(0),)), "wrong"),
    "stage that is refilled without waiting": (dropped("signal_wait", signal="at_K.empty"), "unwaited-copy"),
}


@pytest.mark.rare
@pytest.mark.parametrize("bug", BUGS)
def test_a_mistake_is_found(bug: str) -> None:
    plant, kind = BUGS[bug]
    assert kind in found(*run(plant(kernel("two waves")), GROUPS["uneven"]))


def test_a_cluster_copies_the_weights_of_its_group_once() -> None:
    copies = [op for op in kernel("clusters").walk() if op.name == "bulk_copy"]
    assert {(op["source"], op["box"], op.get("everywhere", False)) for op in copies} == {
        ("x", (64, 64), False),
        ("w", (1, 32, 64), True),
    }
