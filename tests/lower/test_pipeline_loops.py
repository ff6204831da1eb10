"""Copies that run ahead of the loop: where they go, which buffers they use; results stay the same."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.lower.gemms import AMD, CPU, NVIDIA, Gemm, operands, run
from wavespec.diagnostics import WavespecError
from wavespec.ir.dtype import DTYPES
from wavespec.ir.kernel import Kernel, Op
from wavespec.lower.thread_properties import values_are_used
from wavespec.pipeline import lower
from wavespec.schema import loads
from wavespec.sim.simt import simulate
from wavespec.targets.machine import Machine

PROMISED = ("", "", "multiple_of: 8")
SPECS = Path(__file__).parents[2] / "specs"


def pipelined(**changes: object) -> Kernel:
    gemm = replace(Gemm(dims=PROMISED, stages=3), **changes)  # pyright: ignore[reportArgumentType]
    return gemm.lowered(NVIDIA, "pipeline-loops")


def the_loop(kernel: Kernel) -> Op:
    (loop,) = (op for op in kernel.body if op.name == "for")
    return loop


def names(ops: tuple[Op, ...]) -> list[str]:
    return [op.name for op in ops]


@pytest.mark.parametrize("stages", [2, 3, 4])
def test_all_but_one_stage_is_on_its_way_before_the_loop(stages: int) -> None:
    kernel = pipelined(stages=stages)
    before = kernel.body[: kernel.body.index(the_loop(kernel))]
    assert names(before).count("async_commit") == stages - 1
    assert [op["pending"] for op in before if op.name == "async_wait"] == [stages - 2]
    assert {op["buffer"].value for op in before if op.name == "copy_async"} == set(range(stages - 1))


def test_a_step_issues_one_group_and_awaits_the_next_one_before_it_reads_it() -> None:
    ops = names(the_loop(pipelined(stages=4)).body.ops)
    commit, wait = ops.index("async_commit"), ops.index("async_wait")
    assert ops.count("async_commit") == ops.count("async_wait") == 1
    assert max(i for i, name in enumerate(ops) if name == "copy_async") < commit < wait
    assert "load_matrix" in ops[wait:] and ops[-1] == "mma"


def test_copies_are_spread_over_the_slices_of_k() -> None:
    ops = names(the_loop(pipelined(tile=(64, 64, 64), wave=(32, 32))).body.ops)
    groups = "".join(name[0] for name in ops if name in ("copy_async", "mma"))
    assert groups.count("cm") == 3, f"4 slices of k, copies in the first 3: {groups}"


def test_prefetched_steps_are_bounded_even_where_k_is_a_multiple_of_the_tile() -> None:
    kernel = pipelined(dims=("", "", "multiple_of: 32"))
    copies = [op for op in kernel.walk() if op.name == "copy_async"]
    upper = the_loop(kernel)["upper"]
    assert copies and all(any(right is upper for _, right in op["mask"]) for op in copies)


def test_one_stage_stays_as_it_was() -> None:
    gemm = Gemm(dims=PROMISED)
    assert gemm.lowered(NVIDIA, "pipeline-loops") == gemm.lowered(NVIDIA, "sink-arithmetic")


@pytest.mark.parametrize("stages", [2, 3, 4, 8])
@pytest.mark.parametrize("sizes", [(64, 64, 128), (33, 65, 40), (32, 64, 0), (1, 1, 8)])
def test_results_are_exact_and_clean(stages: int, sizes: tuple[int, int, int]) -> None:
    spec = replace(Gemm(dims=PROMISED, stages=stages), value=5).spec
    report, expected = run(spec, NVIDIA, dict(zip("MNK", sizes, strict=True)))
    assert not report.findings, str(report.findings[0])
    np.testing.assert_array_equal(report.tensors["c"], expected)


@pytest.mark.parametrize(
    ("dtype", "tile", "wave", "multiple"),
    [
        ("bf16", (32, 32, 16), (16, 16), 2),
        ("i8", (64, 64, 64), (32, 32), 16),
        ("f32", (64, 64, 8), (32, 64), 4),
    ],
)
def test_other_types(dtype: str, tile: tuple[int, int, int], wave: tuple[int, int], multiple: int) -> None:
    gemm = Gemm(dtype=dtype, tile=tile, wave=wave, stages=3, dims=("", "", f"multiple_of: {multiple}"))
    report, expected = run(gemm.spec, NVIDIA, {"M": 70, "N": 65, "K": 112})
    assert not report.findings, str(report.findings[0])
    np.testing.assert_array_equal(report.tensors["c"], expected)


def test_a_tensor_that_is_read_directly_is_not_read_beyond_its_end() -> None:
    gemm = Gemm(dims=PROMISED, stages=3, spaces=("shared", "global"))
    report, expected = run(gemm.spec, NVIDIA, {"M": 40, "N": 70, "K": 72})
    assert report.ok, report.render()
    np.testing.assert_array_equal(report.tensors["c"], expected)


def test_what_lanes_load_themselves_is_loaded_a_step_ahead() -> None:
    gemm = Gemm(dims=PROMISED, stages=2, spaces=("global", "global"))
    for k in (0, 32, 72):
        report, expected = run(gemm.spec, NVIDIA, {"M": 40, "N": 70, "K": k})
        assert report.ok, report.render()
        np.testing.assert_array_equal(report.tensors["c"], expected)


def converting(machine: Machine) -> Machine:
    """A machine whose only instruction takes f32 tensors as f16."""
    row = next(row for row in machine.instructions if row.name == "mma_m16n8k16_f16")
    return replace(machine, instructions=(replace(row, inputs=(DTYPES["f32"],)),))


@pytest.mark.parametrize(
    ("machine", "gemm"),
    [
        (AMD, Gemm(dims=PROMISED, stages=2)),
        (AMD, Gemm(dims=PROMISED, stages=4)),
        (NVIDIA, Gemm(stages=2)),
        (NVIDIA, Gemm(stages=3)),
        (converting(NVIDIA), Gemm("f32", dims=PROMISED, stages=2)),
    ],
)
@pytest.mark.parametrize("sizes", [(64, 64, 128), (33, 65, 40), (32, 64, 0)])
def test_steps_overlap_through_registers_where_nothing_copies_by_itself(
    machine: Machine, gemm: Gemm, sizes: tuple[int, int, int]
) -> None:
    report, expected = run(gemm.spec, machine, dict(zip("MNK", sizes, strict=True)))
    assert not report.findings, str(report.findings[0])
    np.testing.assert_array_equal(report.tensors["c"], expected)


@pytest.mark.parametrize(
    ("machine", "gemm", "reason"),
    [
        (CPU, Gemm("f32", (24, 64, 32), (None, None), stages=2), "has none"),
        (CPU, Gemm("f32", (24, 64, 32), (None, None), schedule="auto: modulo"), "has none"),
        (CPU, Gemm("f32", (24, 64, 32), (None, None), schedule="loops: {k_loop: {nodes: {acc: 1}}}"), "has none"),
        (NVIDIA, Gemm(tile=(64, 24, 32), wave=(16, 24), dims=PROMISED, stages=2), "another goes through registers"),
        (NVIDIA, Gemm(dims=PROMISED, schedule="auto: modulo", spaces=("global", "global")), "no tensor is staged"),
    ],
)
def test_stages_that_cannot_hold_are_refused_where_they_were_asked_for(
    machine: Machine, gemm: Gemm, reason: str
) -> None:
    with pytest.raises(WavespecError) as caught:
        gemm.lowered(machine)
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.code == "stages-not-possible" and reason in diagnostic.message
    line = next(i for i, text in enumerate(gemm.text.splitlines(), 1) if text.startswith("schedule"))
    assert diagnostic.where is not None and diagnostic.where.line == line  # pyright: ignore


@pytest.mark.parametrize("machine", [NVIDIA, AMD], ids=lambda machine: machine.variant)
@pytest.mark.parametrize("unrolled", ["k_loop", "again"])
def test_only_one_of_two_loops_over_a_dim_is_unrolled(unrolled: str, machine: Machine) -> None:
    """The other one takes shorter steps, and the places of its buffers have to tell them apart."""
    other = {"k_loop": "again", "again": "k_loop"}[unrolled]
    loops = f"loops: {{{unrolled}: {{stages: 2, unroll: 2}}, {other}: {{stages: 2, unroll: 1}}}}"
    text = replace(Gemm(dims=PROMISED, stages=2), schedule=loops).text
    body = text[text.index("  - k_loop:") : text.index("  - {write")]
    again = body.replace("k_loop", "again").replace("acc", "more").replace("_tile", "_again")
    text = text.replace(
        "  - {write: k_loop.acc", again.replace("more: zero", "more: k_loop.acc") + "  - {write: again.more"
    )
    report, expected = run(loads(text, "gemm.wave.yaml"), machine, {"M": 33, "N": 65, "K": 136})
    assert report.ok, report.render()
    np.testing.assert_array_equal(report.tensors["c"], expected)


@pytest.mark.parametrize("machine", [NVIDIA, AMD], ids=lambda machine: machine.variant)
@pytest.mark.parametrize("schedule", ["stages: 2, loops: {k_loop: {unroll: 2}}", "stages: 2, auto: modulo"])
def test_steps_behind_the_last_one_write_nothing(schedule: str, machine: Machine) -> None:
    """Whole tiles check no bounds, and other workgroups write what lies behind a row."""
    text = Gemm(dims=("", "", "multiple_of: 32")).text.replace("schedule: {stages: 1}", f"schedule: {{{schedule}}}")
    text = text.replace("constraints:", "  d: {shape: [N, K], dtype: f16, role: output}\nconstraints:")
    text = text.replace(
        "  - {write: k_loop", "        - twice: b_tile * 2\n        - {write: twice, to: d}\n  - {write: k_loop"
    )
    spec, sizes = loads(text, "gemm.wave.yaml"), {"M": 32, "N": 60, "K": 96}
    inputs = operands(spec, sizes)
    report = simulate(lower(spec, machine), machine, inputs, sizes)
    assert report.ok, report.render()
    np.testing.assert_array_equal(report.tensors["d"], inputs["b"] * 2)


def test_the_rounds_in_front_of_a_loop_make_nothing_that_their_stages_do_not_use() -> None:
    """Scales that come packed are unpacked beside the product, which the first round does not have."""
    text = """apiVersion: wavespec/v1
kind: Kernel
extends: matmul_mxf8.wave.yaml
name: prefetched
schedule: {auto: prefetch}
targets: {gfx942: {schedule: {auto: modulo}}}
"""
    kernel = lower(loads(text, "prefetched", directory=SPECS), AMD)
    assert not list(values_are_used.breaches(kernel, AMD))
