"""Workgroups of a cluster share out the steps of loops without products, and join what they have found."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.lower.gemms import AMD, NVIDIA
from tests.ops.rows import Rows
from tests.sim.planted_bugs import Bug, altered, dropped
from wavespec.diagnostics import WavespecError
from wavespec.ir.expr import const
from wavespec.ir.printer import print_kernel
from wavespec.pipeline import emit, lower
from wavespec.schema import loads
from wavespec.sim.interleaving import Order
from wavespec.sim.simt import simulate
from wavespec.targets.machine import Machine

COLUMNS = Rows(dim="M", tile=(16, 64), wave=(8, 64), split=4)
"""Sums over the first dim."""
SOFTMAX = """apiVersion: wavespec/v1
kind: Kernel
name: rows
dims: {M: {}, N: {multiple_of: 4, max: 1024}}
tensors:
  x: {shape: [M, N], dtype: f32}
  y: {shape: [M, N], dtype: f32, role: output}
constraints:
  - {workgroup: M, tile: 1, axis: 0}
  - {tiling: N, tile: 256}
  - {wave: N, tile: 128}
graph:
  - lowest: {register: [M], dtype: f32, value: -.inf}
  - rows:
      iterate: N
      carry: {largest: lowest}
      body:
        - part: {read: x}
        - largest: {max: part, dim: N, init: largest}
  - results:
      iterate: N
      carry: {}
      body:
        - last: {read: x}
        - result: "last - rows.largest"
        - {write: result, to: y}
schedule: {workgroups: {split: 4}}
"""


@pytest.mark.parametrize("order", ["forward", "reverse", 0])
@pytest.mark.parametrize("sizes", [(1000, 70), (70, 64), (3, 5), (0, 4)], ids=lambda sizes: "x".join(map(str, sizes)))
def test_sums_of_shares_are_exact_in_any_order(sizes: tuple[int, int], order: Order) -> None:
    """Shares that are not whole, and workgroups without any step."""
    kernel = lower(COLUMNS.spec, NVIDIA)
    x = np.random.default_rng(0).integers(-9, 10, sizes).astype(np.float32)
    report = simulate(kernel, NVIDIA, {"x": x}, dict(zip("MN", sizes, strict=True)), order=order)
    assert report.ok, report.render()
    np.testing.assert_array_equal(report.tensors["y"], x.sum(0))


@pytest.mark.parametrize(
    "rows", [Rows(word="max", split=2, init=-20), Rows(split=8, tile=(1, 64), wave=(1, 32), init=3)]
)
def test_what_a_reduction_starts_from_counts_once(rows: Rows) -> None:
    report, expected = rows.run(NVIDIA, (5, 700))
    assert report.ok, report.render()
    np.testing.assert_array_equal(report.tensors["y"].astype(np.float64), expected)


def test_workgroups_take_steps_in_turns_and_whole_ones_check_no_bounds() -> None:
    kernel = lower(COLUMNS.spec, NVIDIA, after="peel-edges")
    whole, rest = (op for op in kernel.body if op.name == "iterate")
    assert (str(whole["lower"]), str(whole["step"])) == ("wg0*16", "64") and rest["lower"] == whole["extent"]
    (read,) = (op for op in whole.body.ops if op.name == "read")
    assert read["masked"] == ("N",)


def test_a_step_each_is_read_once_and_stays_in_registers() -> None:
    kernel = lower(loads(SOFTMAX, "rows.wave.yaml"), NVIDIA)
    assert not [op for op in kernel.walk() if op.name == "for"]
    sizes = {"M": 3, "N": 900}
    x = np.random.default_rng(0).integers(-99, 100, (3, 900)).astype(np.float32)
    report = simulate(kernel, NVIDIA, {"x": x}, sizes)
    assert report.ok, report.render()
    np.testing.assert_array_equal(report.tensors["y"], x - x.max(1, keepdims=True))
    assert report.counts["global load bytes"] == x.nbytes


@pytest.mark.parametrize("columns", ["value: 512", "multiple_of: 256, max: 1024"])
def test_workgroups_without_a_step_find_no_elements(columns: str) -> None:
    """Rows of whole tiles need no check where every tile is there."""
    text = SOFTMAX.replace("multiple_of: 4, max: 1024", columns)
    kernel = lower(loads(text, "rows.wave.yaml"), NVIDIA)
    x = np.random.default_rng(0).integers(-99, 100, (3, 512)).astype(np.float32)
    report = simulate(kernel, NVIDIA, {"x": x}, {"M": 3, "N": 512})
    assert report.ok, report.render()
    np.testing.assert_array_equal(report.tensors["y"], x - x.max(1, keepdims=True))


def test_many_rows_are_on_the_long_axis_of_a_launch() -> None:
    kernel = lower(loads(SOFTMAX, "rows.wave.yaml"), NVIDIA)
    assert (kernel.cluster, [str(extent) for extent in kernel.grid]) == (4, ["M*4"])


def test_two_axes_beside_a_cluster_do_not_run_in_bands() -> None:
    """Workgroups of a cluster are neighbours, whatever order a machine likes."""
    text = COLUMNS.spec_text.replace("  - {workgroup: N, tile: 64, axis: 0}\n", "").replace(
        "constraints:\n", "constraints:\n  - {workgroup: B, tile: 1, axis: 1}\n  - {workgroup: N, tile: 64, axis: 0}\n"
    )
    text = (
        text.replace("dims: {", "dims: {B: {}, ")
        .replace("shape: [", "shape: [B, ")
        .replace("register: [", "register: [B, ")
    )
    kernel = lower(loads(text, "rows.wave.yaml"), NVIDIA)
    assert [str(extent) for extent in kernel.grid] == ["((N + 63)//64)*4", "B"]
    assert 'let {symbol = "wg0", value = [launch0%4]}' in print_kernel(kernel)


BUGS: dict[str, tuple[Bug, str]] = {
    "parts that are read before all are there": (dropped("signal_wait"), "race"),
    "bytes of one workgroup fewer than are sent": (
        altered("signal_arrive", "bytes", lambda n: n * 3 // 4),
        "signal-bytes",
    ),
    "bytes of one workgroup more than are sent": (altered("signal_arrive", "bytes", lambda n: n * 5 // 4), "deadlock"),
    "parts that are sent to the first workgroup alone": (altered("send", "receiver", lambda _: const(0)), "deadlock"),
    "parts that are sent to one place": (altered("send", "offset", lambda at: at.substitute({"wg0": 0})), "wrong"),
}


@pytest.mark.parametrize("bug", BUGS)
def test_bugs_are_found(bug: str) -> None:
    plant, kind = BUGS[bug]
    report, expected = COLUMNS.run(NVIDIA, (200, 40), plant(lower(COLUMNS.spec, NVIDIA)))
    is_right = np.array_equal(report.tensors["y"], expected)
    assert kind in report.kinds() or (kind == "wrong" and not is_right)


@pytest.mark.parametrize(
    ("rows", "old", "new", "why"),
    [
        (replace(COLUMNS, split=3), "", "", "has no clusters of that size"),
        (COLUMNS, "{sum: part, dim: M, init: total}", "{add: [total, total]}", "'total' is not only"),
        (COLUMNS, "M: {", "M: {max: 16, ", "a step takes all of the dim"),
    ],
)
def test_what_cannot_be_shared_out_is_refused_at_the_schedule(rows: Rows, old: str, new: str, why: str) -> None:
    with pytest.raises(WavespecError) as caught:
        lower(loads(rows.spec_text.replace(old, new) if old else rows.spec_text, "rows.wave.yaml"), NVIDIA)
    assert caught.value.code == "split-not-possible" and why in str(caught.value)


def test_a_machine_without_clusters_refuses() -> None:
    with pytest.raises(WavespecError) as caught:
        lower(COLUMNS.spec, AMD)
    assert "Leave out 'split' for this target." in str(caught.value)


def test_resident_workgroups_are_asked_of_the_assembler() -> None:
    text = SOFTMAX.replace("split: 4", "split: 4, resident: 3")
    assert "nvvm.minctasm = 3 : i32" in emit(loads(text, "rows.wave.yaml"), NVIDIA).text


@pytest.mark.parametrize(("registers", "resident"), [(128, 2), (125, 2), (64, 4), (512, 1)])
def test_registers_of_a_lane_say_how_many_workgroups_there_is_room_for(registers: int, resident: int) -> None:
    """256 lanes: a file of 65,536 in steps of 8; a number for tiles of any size."""
    text = SOFTMAX.replace("split: 4", f"split: 4, registers: {registers}").replace("N, tile: 128", "N, tile: 32")
    plan = lower(loads(text), NVIDIA, after="assign-tiles").distribution
    assert (plan.resident, plan.registers) == (resident, 0)


@pytest.mark.parametrize(("machine", "split", "resident"), [(NVIDIA, 4, 32), (AMD, 1, 2)], ids=["registers", "machine"])
def test_more_resident_workgroups_than_have_registers_are_refused(machine: Machine, split: int, resident: int) -> None:
    text = SOFTMAX.replace("split: 4", f"split: {split}, resident: {resident}").replace("N, tile: 128", "N, tile: 32")
    with pytest.raises(WavespecError) as caught:
        lower(loads(text, "rows.wave.yaml"), machine)
    assert caught.value.code == "registers-not-possible"


def test_workgroups_that_share_rows_may_stay() -> None:
    kernel = lower(loads(COLUMNS.spec_text.replace("split: 4", "split: 4, persistent: true"), "rows.wave.yaml"), NVIDIA)
    assert kernel.cluster == 4 and kernel.distribution.persistent
