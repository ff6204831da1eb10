"""GEMMs whose workgroups stay and walk over tiles, executed by an emulator, give exactly the right integers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import pytest

from tests.amd.amd_gemms import Gemm, figures, require_emulator, run
from tests.amd.emulated import emulated
from tests.kernels import Subject, subjects
from tests.sim.plan_variations import variation
from wavespec.schema import KernelSpec

require_emulator()
pytestmark = [pytest.mark.amd, pytest.mark.rare]

TARGETS = ("gfx942", "gfx950")
SIZES = ((200, 136, 72), (130, 129, 48), (3, 5, 8), (64, 400, 64))
"""More tiles than workgroups, so that some take more of them than others; fewer; one row of tiles."""
SCHEDULES = (
    "{stages: 1, workgroups: {persistent: true, count: 3}}",
    "{stages: 2, workgroups: {persistent: true, count: 3}}",
    "{stages: 2, workgroups: {persistent: true, count: 2, group: 2}}",
    "{stages: 1, auto: modulo, workgroups: {persistent: true, count: 5}}",
    "{waves: {order: ping_pong}, workgroups: {persistent: true, count: 3}}",
    "{workgroups: {persistent: true, count: 304}}",
)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("target", TARGETS)
def test_workgroups_that_stay_compute_every_tile(target: str, schedule: str) -> None:
    gemm = Gemm(tile=(64, 64, 32), waves=(2, 1), target=target, schedule=schedule)
    if "ping_pong" in schedule:
        gemm = Gemm(tile=(128, 128, 32), waves=(4, 2), target=target, schedule=schedule)
    assert [size for size in SIZES if not run(gemm, *size).right] == []
    assert figures(gemm)["scratch_bytes_per_lane"] == 0


@pytest.mark.parametrize("dtype", ["f16", "i8", "f32"])
def test_sizes_without_any_promise(dtype: str) -> None:
    schedule = "{stages: 2, workgroups: {persistent: true, count: 3}}"
    gemm = Gemm(dtype, tile=(64, 64, 64), waves=(2, 1), sizes=("", "", ""), schedule=schedule)
    assert [size for size in ((130, 129, 33), (1, 1, 1), (5, 3, 0), (200, 70, 65)) if not run(gemm, *size).right] == []


@dataclass(frozen=True)
class _Ragged:
    """Attention to keys that differ by sequence: one workgroup stays for all of them, each with its queries in LDS."""

    target: str
    subject: ClassVar[Subject] = next(one for one in subjects(*TARGETS) if one.name == "attention_ragged_causal")

    @cached_property
    def spec(self) -> KernelSpec:
        plain = variation(self.subject, self.target, lambda choices: choices[0])
        tiles = {"BLOCK_M": 32, "BLOCK_N": 16, "BLOCK_E": 64, "WAVE_M": 16}
        return plain.with_({"workgroups": {"persistent": True, "count": 1}}, tiles).spec


@pytest.mark.parametrize("target", TARGETS)
def test_waves_meet_with_nothing_in_flight_where_a_loop_has_no_steps(target: str) -> None:
    """A sequence without keys leaves its queries on their way to LDS as the next one begins: the emulator raises at a
    barrier that does not wait for them."""
    kernel, sizes = _Ragged(target), {"T": 7, "S": 90, "H": 2, "G": 1, "D": 24, "E": 20, "L": 4}
    inputs = kernel.subject.inputs(sizes)
    held = emulated(kernel, kernel.subject.complete(sizes), inputs)
    kernel.subject.check(inputs, [held[name] for name in kernel.subject.written], sizes)
