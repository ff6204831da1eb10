"""Waves that share a tile and issue their products in turn: right in any order; and mistakes put into such kernels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from tests.lower.hopper_gemms import hopper_gemm
from tests.sim.planted_bugs import Bug, altered, dropped
from tests.sim.test_read_beside import BIASED, FEW, KERNELS, lowered, run
from wavespec.diagnostics import WavespecError
from wavespec.ir.kernel import Kernel, Op
from wavespec.pipeline import lower
from wavespec.schema import loads

IN_TURN = "waves: {producers: 1, order: in_turn}"
PERSISTENT = f"{IN_TURN}, workgroups: {{persistent: true, count: 1}}"


def steps(kernel: Kernel) -> list[list[str]]:
    """Names of operations of the loops over steps that issue products in turn."""
    loops = [op for op in kernel.walk() if op.name == "for" and any(_waits(inner) for inner in op.body.ops)]
    return [[inner.name for inner in loop.body.ops] for loop in loops]


def _waits(op: Op) -> bool:
    return op.name == "signal_wait" and op["signal"] == "at_T-k.turn"


@pytest.mark.parametrize("schedule", [IN_TURN, PERSISTENT])
@pytest.mark.parametrize("name", [name for name, text in KERNELS.items() if "acc: {mma" in text])
def test_results_are_right_in_any_order(name: str, schedule: str) -> None:
    kernel = lowered(KERNELS[name], schedule)
    for order in ("forward", "reverse", 0, 1):
        report, expected = run(KERNELS[name], kernel, order)
        assert report.ok, report.render()
        np.testing.assert_array_equal(report.tensors["y"], expected)


def test_three_waves_issue_in_turn() -> None:
    text = BIASED.replace("workgroup: M, tile: 128", "workgroup: M, tile: 192").replace(
        "bias: {shape: [M, T], dtype: f16, space: shared}", "bias: {shape: [M, T], dtype: f16}"
    )
    kernel = lowered(text, PERSISTENT)
    for order in ("forward", "reverse", 0):
        report, expected = run(text, kernel, order, rows=500)
        assert report.ok, report.render()
        np.testing.assert_array_equal(report.tensors["y"], expected)


def test_a_turn_is_given_behind_all_products_that_are_issued_at_a_time() -> None:
    first, *_, others = steps(lowered(BIASED, PERSISTENT))
    assert first.index("signal_wait") < first.index("mma_fence") < first.index("mma_commit") < first.index("if")
    commits = [number for number, name in enumerate(others) if name == "mma_commit"]
    assert len(commits) == 2 and others[commits[1] + 1] == "if"


BUGS: dict[str, tuple[Bug, Sequence[str]]] = {
    "first turn that is not given": (dropped("signal_arrive", 0, signal="at_T-k.turn"), ["deadlock"]),
    "turns that are not given": (dropped("signal_arrive", signal="at_T-k.turn"), ["deadlock"]),
    "wait for the phase before": (
        altered("signal_wait", "phase", lambda phase: 1 - phase, signal="at_T-k.turn"),
        ["deadlock", "signal-overrun"],
    ),
}


@pytest.mark.parametrize("name", BUGS)
def test_a_mistake_is_found(name: str) -> None:
    bug, kinds = BUGS[name]
    found = set[str]()
    for order in ("forward", "reverse", 0, 1):
        report, _ = run(BIASED, bug(lowered(BIASED, PERSISTENT)), order)
        found |= report.kinds()
    assert not found.isdisjoint(kinds), found


def refusal(text: str) -> WavespecError:
    with pytest.raises(WavespecError) as caught:
        lower(loads(text, "refused.wave.yaml"), FEW)
    return caught.value


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (hopper_gemm(tile=(128, 128, 64), wave=(64, 128), schedule=IN_TURN).text, "no sums to compute with"),
        (BIASED.replace("SCHEDULE", IN_TURN).replace("tile: 128", "tile: 64"), "one wave computes all of a tile"),
    ],
)
def test_turns_that_no_wave_needs_are_refused(text: str, why: str) -> None:
    error = refusal(text)
    (diagnostic,) = error.diagnostics
    assert error.code == "turns-not-possible" and why in diagnostic.message and diagnostic.span


def test_turns_without_a_wave_that_copies_are_refused() -> None:
    error = refusal(hopper_gemm(schedule="waves: {order: in_turn}").text)
    assert {diagnostic.code for diagnostic in error.diagnostics} == {"useless-setting"}
