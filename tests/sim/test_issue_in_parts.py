"""Waves that issue most of a step's last product between the arithmetic of the next step: right in any order; and
mistakes put into such kernels."""

from __future__ import annotations

import numpy as np
import pytest

from tests.lower.hopper_gemms import hopper_gemm
from tests.sim.planted_bugs import altered
from tests.sim.test_issue_in_turn import refusal
from tests.sim.test_read_beside import BIASED, KERNELS, lowered, run
from wavespec.ir.kernel import Op

IN_PARTS = "waves: {producers: 1, order: in_parts}"
PERSISTENT = f"{IN_PARTS}, workgroups: {{persistent: true, count: 1}}"


def outline(loop: Op) -> list[str]:
    """Products, by the memory that they read, what ends a group of them, and waits for groups of a step."""
    found = list[str]()
    for op in loop.body.ops:
        if op.name == "mma_async":
            found.append(op["b_memory"].partition(".")[0])
        elif op.name in ("mma_commit", "mma_wait"):
            found.append(f"wait {op['pending']}" if op.name == "mma_wait" else "commit")
    return found


@pytest.mark.parametrize("schedule", [IN_PARTS, PERSISTENT])
@pytest.mark.parametrize("name", [name for name, text in KERNELS.items() if "acc: {mma" in text])
def test_results_are_right_in_any_order(name: str, schedule: str) -> None:
    kernel = lowered(KERNELS[name], schedule)
    for order in ("forward", "reverse", 0, 1):
        report, expected = run(KERNELS[name], kernel, order)
        assert report.ok, report.render()
        np.testing.assert_array_equal(report.tensors["y"], expected)


def test_a_quarter_of_the_product_is_issued_beside_the_scores_and_the_rest_behind_them() -> None:
    steps = [op for op in lowered(BIASED, IN_PARTS).walk() if op.name == "for" and "v" in outline(op)]
    scores, rest = ["k"] * 4 + ["commit", "v", "commit", "wait 1"], ["v"] * 3 + ["commit", "wait 0"]
    *others, last = map(outline, steps)
    assert others and all(one == scores + rest for one in others), (
        "the last product is in one part, with no step behind"
    )
    assert last == ["v"] * 4 + ["commit", "wait 0"]


def test_sums_that_are_not_awaited_are_found() -> None:
    kinds = set[str]()
    for order in ("forward", "reverse", 0, 1):
        bug = altered("mma_wait", "pending", lambda pending: pending or 1)
        report, _ = run(BIASED, bug(lowered(BIASED, PERSISTENT)), order)
        kinds |= report.kinds()
    assert kinds, "one of two groups may still add to the sums"


def test_parts_of_products_that_are_issued_alone_are_refused() -> None:
    error = refusal(hopper_gemm(schedule=IN_PARTS).text)
    (diagnostic,) = error.diagnostics
    assert error.code == "product-in-one-part" and diagnostic.span


def test_parts_without_a_wave_that_copies_are_refused() -> None:
    error = refusal(hopper_gemm(schedule="waves: {order: in_parts}").text)
    assert {diagnostic.code for diagnostic in error.diagnostics} == {"useless-setting"}
