"""Waves that wait for the last product of a step as soon as lanes of the next one have told each other of its sums:
right in any order; and mistakes put into such kernels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from tests.lower.hopper_gemms import hopper_gemm
from tests.sim.planted_bugs import Bug, altered, dropped, planted
from tests.sim.test_issue_in_turn import refusal
from tests.sim.test_read_beside import BIASED, KERNELS, lowered, run, too_early
from wavespec.ir.kernel import Op

EARLY = "waves: {producers: 1, early_wait: true}"
IN_TURN = "waves: {producers: 1, order: in_turn, early_wait: true}, workgroups: {persistent: true, count: 1}"
PERSISTENT = f"{EARLY}, workgroups: {{persistent: true, count: 1}}"
ONE_BUFFER = PERSISTENT.replace("producers: 1", "producers: 1, buffers: {bias: 1}")


def with_tops(text: str) -> str:
    """A kernel whose factors are made of the largest of the sums of a row, too, which changes none."""
    return text.replace("- p: f16(added)", '- top: {max: added, dim: T}\n        - p: "f16(added - top + top)"')


def steps(schedule: str, text: str = BIASED) -> list[tuple[Op, ...]]:
    """Those beside the last product of the step before."""
    loops = [op.body.ops for op in lowered(with_tops(text), schedule).walk() if op.name == "for"]
    return [ops for ops in loops if any(op.name == "mma_wait" and op["pending"] for op in ops)]


@pytest.mark.parametrize("schedule", [EARLY, PERSISTENT, ONE_BUFFER, IN_TURN])
@pytest.mark.parametrize("name", ["biases", "masks", "biases of four bytes", "tiles that differ in steps"])
def test_results_are_right_in_any_order(name: str, schedule: str) -> None:
    text = with_tops(KERNELS[name])
    kernel = lowered(text, schedule)
    for order in ("forward", "reverse", 0, 1):
        report, expected = run(text, kernel, order)
        assert report.ok, report.render()
        np.testing.assert_array_equal(report.tensors["y"], expected)


def behind_last_wait(ops: Sequence[Op]) -> Sequence[Op]:
    return ops[1 + max(number for number, op in enumerate(ops) if op.name == "mma_wait") :]


def is_difference(op: Op) -> bool:
    """Whether it is one of a sum and the largest of its row, which lanes tell each other."""
    return op.name == "elementwise" and op["function"] == "sub"


def test_the_last_product_is_awaited_behind_what_lanes_tell_and_in_front_of_what_they_make_of_it() -> None:
    early, late = steps(EARLY), steps("waves: {producers: 1}")
    assert early and late
    for ops in early:
        behind = behind_last_wait(ops)
        before = ops[: -len(behind)]
        assert any(op.name == "shuffle" for op in before) and not any(op.name == "shuffle" for op in behind)
        assert [op.name for op in behind[:2]] == ["signal_wait", "if"], (
            "the branch of a wait that is over keeps the assembler from moving what is behind it"
        )
        assert any(map(is_difference, behind)) and not any(map(is_difference, before))
    for ops in late:
        assert any(map(is_difference, ops)) and not any(map(is_difference, behind_last_wait(ops)))


BUGS: dict[str, tuple[Bug, Sequence[str]]] = {
    "lanes that do not meet": (dropped("barrier"), ["race"]),
    "product that is not awaited": (altered("mma_wait", "pending", lambda pending: pending or 1), ["unwaited-product"]),
    "tile that is never released": (dropped("signal_arrive", signal="at_T-bias.empty"), ["deadlock"]),
    "tile that is released before it is read": (planted(too_early), ["race"]),
}


@pytest.mark.parametrize("name", BUGS)
def test_a_mistake_is_found(name: str) -> None:
    bug, kinds = BUGS[name]
    found = set[str]()
    for order in ("forward", "reverse", 0, 1):
        report, _ = run(with_tops(BIASED), bug(lowered(with_tops(BIASED), ONE_BUFFER)), order)
        found |= report.kinds()
    assert not found.isdisjoint(kinds), found


REFUSED = {
    "nothing told": BIASED.replace("SCHEDULE", EARLY),
    "one product": hopper_gemm(schedule=EARLY).text,
    "a loop around, whose arithmetic was taken for that of a step": hopper_gemm(schedule=PERSISTENT).text.replace(
        "- {write: k_loop.acc, to: c}", "- half: 0.5 * k_loop.acc\n  - {write: half, to: c}"
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_waits_that_cannot_be_early_are_refused(name: str) -> None:
    text = REFUSED[name]
    error = refusal(text)
    (diagnostic,) = error.diagnostics
    assert error.code == "no-early-wait" and diagnostic.span
    line, column = diagnostic.span.line, diagnostic.span.column
    assert text.splitlines()[line - 1][column - 1 :].startswith("early_wait: true")
