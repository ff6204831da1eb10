"""A launch has as many waves as there are elements for, and what the others would have is neither read nor waited for."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.lower.gemms import AMD, NVIDIA
from wavespec.diagnostics import WavespecError
from wavespec.ir.kernel import Kernel
from wavespec.ir.parser import parse_kernel
from wavespec.ir.printer import print_kernel
from wavespec.pipeline import emit, lower
from wavespec.runtime.launch_plan import LaunchPlan, make_plan
from wavespec.schema import loads
from wavespec.sim.interleaving import Order
from wavespec.sim.simt import simulate
from wavespec.targets.machine import Machine

WAVES, OF_WAVE = 8, 128
ALONE, SHARED = "fitted: true, registers: 64", "split: 4, fitted: true, registers: 64"
ROWS = """apiVersion: wavespec/v1
kind: Kernel
name: rows
dims: {M: {}, N: {multiple_of: 4, max: 1024}}
tensors:
  x: {shape: [M, N], dtype: f32}
  weight: {shape: [N], dtype: f32}
  y: {shape: [M, N], dtype: f32, role: output}
constraints:
  - {workgroup: M, tile: 1, axis: 0}
  - {tiling: N, tile: 1024}
  - {wave: N, tile: 128}
graph:
  - none: {register: [M], dtype: f32, value: 0}
  - lowest: {register: [M], dtype: f32, value: -.inf}
  - rows:
      iterate: N
      carry: {largest: lowest, total: none}
      body:
        - part: {read: x}
        - largest: {max: part, dim: N, init: largest}
        - total: {sum: part, dim: N, init: total}
  - results:
      iterate: N
      carry: {}
      body:
        - last: {read: x}
        - factor: {read: weight}
        - result: "(last - rows.largest) * factor + rows.total"
        - {write: result, to: y}
schedule: {workgroups: {fitted: true, registers: 64}}
"""


def rows(workgroups: str, *changes: tuple[str, str], machine: Machine = NVIDIA) -> Kernel:
    return lower(loads(_text(workgroups, *changes), "rows.wave.yaml"), machine)


def _text(workgroups: str, *changes: tuple[str, str]) -> str:
    text = ROWS.replace(ALONE, workgroups)
    text = text.replace("max: 1024", "max: 4096") if "split: 4" in workgroups else text
    for before, after in changes:
        assert before in text
        text = text.replace(before, after)
    return text


def plan(workgroups: str, columns: int, *changes: tuple[str, str]) -> LaunchPlan:
    module = emit(loads(_text(workgroups, *changes), "rows.wave.yaml"), NVIDIA)
    return make_plan(module.interface, {"M": 1000, "N": columns})


@pytest.mark.parametrize(
    "workgroups", [ALONE, SHARED, f"persistent: true, count: 2, {ALONE}", f"persistent: true, count: 1, {SHARED}"]
)
@pytest.mark.parametrize("columns", [4, 128, 132, 1000, 1024])
def test_rows_are_right_whatever_is_launched(workgroups: str, columns: int) -> None:
    """The simulator runs the waves of the launch alone, and finds what is read that nobody wrote."""
    _check(rows(workgroups), columns)


@pytest.mark.parametrize("order", ["forward", "reverse", 0])
def test_rows_that_start_anywhere_are_right_too(order: Order) -> None:
    """A row of as many elements as waves have may need one more, as it starts behind an access."""
    anywhere = ("multiple_of: 4, max: 1024", "max: 1000")
    for columns in (1, 126, 128, 999):
        _check(rows(ALONE, anywhere), columns, order)


def _check(kernel: Kernel, columns: int, order: Order = "forward") -> None:
    numbers = np.random.default_rng(0)
    x, weight = (numbers.integers(-9, 10, shape).astype(np.float32) for shape in ((5, columns), columns))
    report = simulate(kernel, NVIDIA, {"x": x, "weight": weight}, {"M": 5, "N": columns}, order=order)
    assert not report.findings
    np.testing.assert_array_equal(report.tensors["y"], (x - x.max(1, keepdims=True)) * weight + x.sum(1, keepdims=True))


def test_a_wave_too_few_leaves_results_out() -> None:
    """What the others rely on: `launched` is no more than what is needed."""
    kernel = rows(ALONE)
    assert kernel.launched is not None
    x, weight = np.ones((1, 260), np.float32), np.ones(260, np.float32)
    fewer = replace(kernel, launched=kernel.launched - 1)
    report = simulate(fewer, NVIDIA, {"x": x, "weight": weight}, {"M": 1, "N": 260})
    assert report.findings


@pytest.mark.parametrize(("columns", "waves"), [(0, 1), (4, 1), (128, 1), (132, 2), (1000, 8), (1024, 8)])
def test_a_launch_has_waves_for_its_columns(columns: int, waves: int) -> None:
    assert plan(ALONE, columns).workgroup_size == (waves * NVIDIA.lanes, 1, 1)


def test_workgroups_of_a_cluster_have_as_many_waves() -> None:
    """520 columns are four waves of 128 and 8 more: two waves in each of four workgroups."""
    assert plan(SHARED, 512).workgroup_size == (NVIDIA.lanes, 1, 1)
    assert plan(SHARED, 520).workgroup_size == (2 * NVIDIA.lanes, 1, 1)


def test_workgroups_that_stay_are_as_many_as_fit_with_their_waves() -> None:
    """64 registers of a lane leave room for 32 waves."""
    staying = f"persistent: true, {ALONE}"
    assert [plan(staying, columns).grid[0] for columns in (128, 256, 1024)] == [1000, 1000, 4 * 132]


def test_waves_that_are_not_launched_have_no_shared_memory() -> None:
    """The next row and weights, which do not fit registers, wait there: as many bytes for each wave."""
    staying = f"persistent: true, {ALONE.replace('64', '24')}"
    one, two, all_ = (plan(staying, columns).shared_memory_bytes for columns in (128, 256, 1024))
    assert two - one in (4 * OF_WAVE, 8 * OF_WAVE) and all_ - one == (WAVES - 1) * (two - one)


def test_launched_waves_are_part_of_the_text() -> None:
    kernel = rows(ALONE)
    assert parse_kernel(print_kernel(kernel)) == kernel


@pytest.mark.parametrize(
    ("workgroups", "change", "machine", "why"),
    [
        (ALONE, ("max: 1024", "max: 2048"), NVIDIA, "'N' may take several steps of its loop"),
        (ALONE.replace(", registers: 64", ""), ("max", "max"), NVIDIA, "the registers of a lane say"),
        (ALONE.replace("64", "256"), ("{wave: N, tile: 128}", "{wave: N, tile: 64}"), NVIDIA, "leave room for 8 waves"),
        (ALONE, ("{workgroup: M, tile: 1", "{workgroup: M, tile: 2"), NVIDIA, "a wave has several rows"),
        (ALONE, ("{wave: N, tile: 128}", "{wave: N, tile: 1024}"), NVIDIA, "waves which share out one dim"),
        (ALONE, ("max", "max"), AMD, "have workgroups of one size"),
    ],
)
def test_where_all_waves_are_launched_says_why(
    workgroups: str, change: tuple[str, str], machine: Machine, why: str
) -> None:
    with pytest.raises(WavespecError, match=why) as raised:
        rows(workgroups, change, machine=machine)
    assert raised.value.code == "useless-setting"
