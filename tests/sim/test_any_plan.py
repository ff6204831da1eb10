"""Whatever tiles, waves, stages, roles and orders of tiles a kernel of ``specs/`` is given on a GPU: it is right, or it
is refused with a diagnostic."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.kernels import subjects
from tests.sim.plan_variations import Variation, variation
from wavespec.diagnostics import WavespecError

_MOST_PARAM = 256
"""Of a tile: larger ones are lowered as well, in minutes."""


def _is_small(one: Variation) -> bool:
    return all(not isinstance(value, int) or value <= _MOST_PARAM for value in one.params.values())


@pytest.mark.parametrize("target", ["sm_90", "gfx942", "gfx950"])
@given(st.data())
def test_a_plan_never_changes_a_result(target: str, data: st.DataObject) -> None:
    def choose(some: Any) -> Any:
        return data.draw(st.sampled_from(some))

    one = variation(choose(subjects(target)), target, choose)
    if not _is_small(one):
        return
    kernel = one.lowered()
    if not isinstance(kernel, WavespecError):
        one.check(kernel, one.subject.complete(choose(one.subject.row.small)))


def plan(target: str, name: str, schedule: dict[str, Any], **params: int) -> Variation:
    """A kernel with this schedule and these params."""
    subject = next(one for one in subjects(target) if one.name == name)
    return variation(subject, target, lambda some: some[0]).with_(schedule, params)


@pytest.mark.parametrize("target", ["sm_90", "gfx942", "gfx950"])
@pytest.mark.parametrize(("tile", "wave"), [(16, 1), (16, 2), (4, 1), (8, 2), (32, 4)])
def test_waves_with_less_elements_than_lanes_transpose(target: str, tile: int, wave: int) -> None:
    check(plan(target, "transpose", {}, TILE_M=tile, TILE_N=tile, WAVE=wave), {"M": 70, "N": 33})


@pytest.mark.parametrize("target", ["sm_90", "gfx950"])
def test_steps_overlap_that_store_what_they_compute(target: str) -> None:
    """Weights of attention go through shared memory, behind products of the same step."""
    check(plan(target, "attention", {"stages": 2}), {"B": 1, "H": 1, "M": 66, "N": 70, "D": 50, "E": 20})


@pytest.mark.parametrize("name", ["matmul_mxf8", "linear_i4"])
@pytest.mark.parametrize("schedule", [{"stages": 2}, {"waves": {"order": "ping_pong"}}], ids=str)
@pytest.mark.parametrize("target", ["gfx942", "gfx950"])
def test_operands_that_are_computed_of_tensors_are_stored_ahead(
    target: str, schedule: dict[str, Any], name: str
) -> None:
    check(plan(target, name, schedule), {"M": 33, "N": 40, "K": 96})


def test_registers_that_rounds_take_have_a_place_without_a_schedule() -> None:
    sizes = {"BLOCK_M": 128, "BLOCK_N": 1024, "BLOCK_K": 32, "WAVE_M": 64, "WAVE_N": 64}
    one = plan("sm_90", "gemm", {}, **sizes)
    found = replace(one, text=one.text.replace("schedule: {}\n", "")).lowered()
    assert isinstance(found, WavespecError) and found.code == "schedule-takes-registers"
    assert all(diagnostic.span for diagnostic in found.diagnostics)


@pytest.mark.parametrize("target", ["gfx942", "gfx950"])
def test_waves_take_no_turns_where_a_step_stores_what_it_read_of_shared_memory(target: str) -> None:
    """A staged tile, scaled, goes through shared memory once more."""
    found = plan(target, "matmul_mxf8", {"waves": {"order": "ping_pong"}}).with_staged("b").lowered()
    assert isinstance(found, WavespecError) and found.code == "turns-not-possible"


@pytest.mark.parametrize("target", ["sm_90", "gfx942", "gfx950"])
def test_rounds_over_tiles_do_not_overlap(target: str) -> None:
    schedule = {"stages": 3, "workgroups": {"persistent": True, "count": 3}}
    one = plan(target, "qk_norm_rope", schedule).with_staged("sin")
    check(one, {"T": 3, "H": 2, "D": 128})


def check(one: Variation, sizes: dict[str, int]) -> None:
    kernel = one.lowered()
    assert not isinstance(kernel, WavespecError), str(kernel)
    one.check(kernel, one.subject.complete(sizes))
