"""Tiles that the wave which only copies stages and that lanes read beside the products of a step: biases of scores and
masks, with rings of their own; and mistakes put into such kernels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from tests.lower.gemms import NVIDIA
from tests.lower.hopper_gemms import CLUSTERS, PING_PONG, TOGETHER
from tests.ops.mapped_kernels import arrays_of, whole_numbers
from tests.sim.planted_bugs import Bug, altered, dropped, planted, unswizzled
from wavespec.diagnostics import WavespecError
from wavespec.ir.kernel import Kernel, Op
from wavespec.pipeline import lower
from wavespec.schema import loads
from wavespec.sim.findings import SimulationReport
from wavespec.sim.interleaving import Order
from wavespec.sim.reference import reference
from wavespec.sim.simt import simulate
from wavespec.targets.machine import Machine

PERSISTENT = f"{TOGETHER}, workgroups: {{persistent: true, count: 1}}"
SCHEDULES = {"together": TOGETHER, "persistent": PERSISTENT, "ping-pong": PING_PONG, "clusters": CLUSTERS}
FEW = replace(NVIDIA, processors=2, clusters={2: 2})

BIASED = """apiVersion: wavespec/v1
kind: Kernel
name: biased
dims: {M: {}, N: {value: 64}, K: {value: 64}, T: {multiple_of: 16}}
tensors:
  q: {shape: [M, K], dtype: f16, space: shared}
  k: {shape: [T, K], dtype: f16, space: shared}
  v: {shape: [T, N], dtype: f16, space: shared}
  bias: {shape: [M, T], dtype: f16, space: shared}
  y: {shape: [M, N], dtype: f32, role: output}
constraints:
  - {workgroup: M, tile: 128, axis: 0}
  - {tiling: T, tile: 64}
  - {wave: M, tile: 64}
graph:
  - q_tile: {read: q}
  - zero: {register: [M, N], dtype: f32, value: 0}
  - t_loop:
      iterate: T
      carry: {acc: zero}
      body:
        - k_tile: {read: k}
        - v_tile: {read: v}
        - none: {register: [M, T], dtype: f32, value: 0}
        - s: {mma: [q_tile, k_tile, none]}
        - bias_tile: {read: bias}
        - added: "s + f32(bias_tile)"
        - p: f16(added)
        - scaled: maximum(acc, -1000000)
        - acc: {mma: [p, v_tile, scaled]}
  - {write: t_loop.acc, to: y}
schedule: {stages: 2, SCHEDULE}
"""
FIRST = BIASED.replace("        - bias_tile: {read: bias}\n", "").replace(
    "        - k_tile", "        - bias_tile: {read: bias}\n        - twice: bias_tile + bias_tile\n        - k_tile"
)
ENDED = BIASED.replace("iterate: T\n", "iterate: T\n      end: end(M) + T - M\n").replace(
    "s + f32(bias_tile)", "where(index(T) <= index(M) + size(T) - size(M), s + f32(bias_tile), 0)"
)
ROWS = """        - top: {max: added, dim: T}
        - acc: maximum(acc, top)
"""
KERNELS = {
    "biases": BIASED,
    "biases that are read first": FIRST.replace("f32(bias_tile)", "f32(twice)"),
    "biases of four bytes": BIASED.replace("bias: {shape: [M, T], dtype: f16", "bias: {shape: [M, T], dtype: f32"),
    "masks": BIASED.replace("dtype: f16, space: shared}\n  y", "dtype: bool, space: shared}\n  y").replace(
        "s + f32(bias_tile)", "where(bias_tile, s, 0)"
    ),
    "tiles that differ in steps": ENDED,
    "sums that no product reads": (
        BIASED[: BIASED.index("        - p: f16")] + ROWS + BIASED[BIASED.index("  - {write") :]
    )
    .replace("  v: {shape: [T, N], dtype: f16, space: shared}\n", "")
    .replace("        - v_tile: {read: v}\n", "")
    .replace("y: {shape: [M, N]", "y: {shape: [M]")
    .replace("zero: {register: [M, N]", "zero: {register: [M]")
    .replace(" N: {value: 64},", ""),
}


def lowered(text: str, schedule: str = TOGETHER, machine: Machine = FEW) -> Kernel:
    return lower(loads(text.replace("SCHEDULE", schedule), "biased.wave.yaml"), machine)


def run(text: str, kernel: Kernel, order: Order = "forward", rows: int = 200) -> tuple[SimulationReport, np.ndarray]:
    """The report, and what the reference has; sums of whole numbers are exact."""
    spec = loads(text.replace("SCHEDULE", TOGETHER))
    sizes = {dim: size for dim, size in {"M": rows, "N": 64, "K": 64, "T": 208}.items() if dim in spec.dims}
    inputs = whole_numbers(spec, sizes)
    return simulate(kernel, FEW, arrays_of(spec, inputs), sizes, order=order), np.asarray(reference(spec, *inputs))


OPERANDS = 2 * (128 + 3 * (64 + 64)) * 64
"""Bytes of three stages."""


def with_room_for(bytes_: int) -> Machine:
    return replace(FEW, shared=replace(FEW.shared, bytes=bytes_))


def own_ring(kernel: Kernel) -> list[int]:
    """Buffers of the ring that biases have for themselves."""
    return [memory.buffers for memory in kernel.memories if memory.name == "at_T-bias.full"]


@pytest.mark.parametrize(
    ("name", "schedule"),
    [
        (name, schedule)
        for name in KERNELS
        for schedule in SCHEDULES
        if "differ" not in name or schedule not in ("ping-pong", "clusters")  # whose tiles have as many steps each
    ],
)
def test_tiles_beside_products_are_right(name: str, schedule: str) -> None:
    kernel = lowered(KERNELS[name], SCHEDULES[schedule])
    assert own_ring(kernel) == ([2] if "acc: {mma" in KERNELS[name] else [])
    for order in ("forward", "reverse", 0):
        report, expected = run(KERNELS[name], kernel, order)
        assert report.ok, report.render()
        np.testing.assert_array_equal(report.tensors["y"], expected)


@pytest.mark.parametrize("name", ["biases", "masks", "tiles that differ in steps"])
def test_one_buffer_is_enough_where_there_is_no_room_for_two(name: str) -> None:
    text = KERNELS[name].replace("stages: 2", "stages: 3")
    tile = 128 * 64 if name == "masks" else 2 * 128 * 64
    assert own_ring(lowered(text, PERSISTENT, with_room_for(OPERANDS + 3 * tile))) == [3]
    kernel = lowered(text, PERSISTENT, with_room_for(OPERANDS + 2 * tile))
    assert own_ring(kernel) == [1]
    for order in ("forward", "reverse", 0):
        report, expected = run(text, kernel, order)
        assert report.ok, report.render()
        np.testing.assert_array_equal(report.tensors["y"], expected)


@pytest.mark.parametrize("buffers", [1, 3])
@pytest.mark.parametrize("name", ["biases", "masks", "tiles that differ in steps"])
def test_a_schedule_may_say_how_many_buffers(name: str, buffers: int) -> None:
    schedule = PERSISTENT.replace("producers: 1", f"producers: 1, buffers: {{bias: {buffers}}}")
    kernel = lowered(KERNELS[name], schedule)
    assert own_ring(kernel) == [buffers]
    assert [one.buffers for one in kernel.memories if one.name == "bias.shared"] == [buffers]
    for order in ("forward", "reverse", 0):
        report, expected = run(KERNELS[name], kernel, order)
        assert report.ok, report.render()
        np.testing.assert_array_equal(report.tensors["y"], expected)


def test_as_many_buffers_as_a_schedule_says_have_to_fit() -> None:
    text, schedule = BIASED.replace("stages: 2", "stages: 3"), "waves: {producers: 1, buffers: {bias: 3}}"
    with pytest.raises(WavespecError, match="shared-memory-exceeded"):
        lowered(text, schedule, with_room_for(OPERANDS + 2 * 2 * 128 * 64))


@pytest.mark.parametrize("name", ["k", "y"])
def test_buffers_of_what_no_lanes_read_beside_products_are_refused(name: str) -> None:
    schedule = f"waves: {{producers: 1, buffers: {{{name}: 1}}}}"
    with pytest.raises(WavespecError, match=rf"biased\.wave\.yaml:\d+.*\[useless-setting\]: '{name}'"):
        lowered(BIASED + "only: [sm_90]\n", schedule)
    lowered(BIASED, schedule)  # other targets may have a use for it


def test_tiles_are_read_beside_the_first_product() -> None:
    """They are awaited when it has been issued, and given back before its sums are there."""
    kernel = lowered(BIASED)
    loop = [op for op in kernel.walk() if op.name == "for" and any(inner.name == "load_matrix" for inner in op.walk())]
    names = [op.name for op in loop[-1].body.ops]
    commits = [number for number, name in enumerate(names) if name == "mma_commit"]
    wait = names.index("mma_wait")
    assert len(commits) == 2 and names[commits[1] + 1 : wait] == [
        "signal_wait",
        *["load_matrix"] * 4,
        "fence_async",
        "barrier",
        "if",
    ]


def test_tiles_are_read_behind_sums_where_registers_are_few() -> None:
    kernel = lowered(BIASED, "waves: {producers: 1, registers: {producer: 24, consumer: 104}}")
    loop = [op for op in kernel.walk() if op.name == "for" and any(inner.name == "load_matrix" for inner in op.walk())]
    names = [op.name for op in loop[-1].body.ops]
    assert names.index("mma_wait") < names.index("load_matrix")
    report, expected = run(BIASED, kernel)
    assert report.ok, report.render()
    np.testing.assert_array_equal(report.tensors["y"], expected)


def test_what_a_product_reads_as_well_is_refused() -> None:
    text = BIASED.replace("bias_tile: {read: bias}", "again: {read: k, dims: [M, T], at: {T: M, K: T}}").replace(
        "f32(bias_tile)", "f32(again)"
    )
    with pytest.raises(WavespecError) as caught:
        lowered(text)
    assert caught.value.code == "nothing-to-stage"


def too_early(op: Op) -> tuple[Op, ...]:
    """The buffer is given back before lanes have read it."""
    if op.name != "for":
        return (op,)
    ops = list(op.body.ops)
    place = next((n for n, one in enumerate(ops) if one.name == "load_matrix"), None)
    if place is None:
        return (op,)
    release = next(n for n in range(place, len(ops)) if ops[n].name == "if")
    ops.insert(place, ops.pop(release))
    return (replace(op, region=replace(op.body, ops=tuple(ops))),)


BUGS: dict[str, tuple[Bug, Sequence[str]]] = {
    "tile that is read without waiting": (dropped("signal_wait", signal="at_T-bias.full"), ["unwaited-copy"]),
    "tile that is refilled without waiting": (
        dropped("signal_wait", signal="at_T-bias.empty"),
        ["unwaited-copy", "race", "signal-overrun"],
    ),
    "tile that is never released": (dropped("signal_arrive", signal="at_T-bias.empty"), ["deadlock"]),
    "tile that is released before it is read": (planted(too_early), ["race"]),
    "wait for the phase before": (
        altered("signal_wait", "phase", lambda phase: 1 - phase, signal="at_T-bias.full"),
        ["unwaited-copy"],
    ),
    "wrong swizzle": (unswizzled("load_matrix", memory="bias.shared"), ["wrong"]),
}


@pytest.mark.parametrize("name", BUGS)
def test_a_mistake_is_found(name: str) -> None:
    """With one buffer: of as many as keys have the release of these tells the producer enough, in this order."""
    bug, kinds = BUGS[name]
    text = BIASED.replace("stages: 2", "stages: 3")
    report, expected = run(text, bug(lowered(text, PERSISTENT, with_room_for(OPERANDS + 2 * 2 * 128 * 64))))
    wrong = set[str]() if np.array_equal(report.tensors["y"], expected) else {"wrong"}
    assert not (report.kinds() | wrong).isdisjoint(kinds), report.render()


def test_lanes_that_read_late_are_met() -> None:
    """The simulator runs the lanes of a wave as one: that one of its warps reads late it cannot find, nor that a load is
    still on its way."""
    kernel = lowered(BIASED, PERSISTENT)
    for loop in (op for op in kernel.walk() if op.name == "for"):
        ops = loop.body.ops
        for number, op in enumerate(ops):
            if op.name == "if" and op.body.ops[0].get("signal") == "at_T-bias.empty":
                assert [op.name for op in ops[number - 2 : number]] == ["fence_async", "barrier"]
