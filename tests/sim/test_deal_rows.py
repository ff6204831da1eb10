"""Rows of tiles that boxes deal out, so that lanes load masks and biases of each pair 8 at a time: right in any order and
where rows and columns end; and mistakes put into such kernels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from tests.lower.hopper_gemms import CLUSTERS
from tests.sim.planted_bugs import Bug, altered, dropped
from tests.sim.test_read_beside import BIASED, KERNELS, PERSISTENT, TOGETHER, lowered, run
from wavespec.ir.kernel import Kernel

EIGHTS = "T: {multiple_of: 8}"


def of_lanes(text: str) -> str:
    """The kernel whose lanes load the bias from the tensor."""
    return text.replace(", space: shared}\n  y", "}\n  y").replace("T: {multiple_of: 16}", EIGHTS)


MASKS, BIASES = of_lanes(KERNELS["masks"]), of_lanes(BIASED)
WIDE = MASKS.replace("{tiling: T, tile: 64}", "{tiling: T, tile: 128}")
SCHEDULES = {
    "together": TOGETHER,
    "persistent": PERSISTENT,
    "in turn": PERSISTENT.replace("producers: 1", "producers: 1, order: in_turn"),
}


def steps_of_boxes(kernel: Kernel) -> set[int]:
    copies = [op for op in kernel.walk() if op.name == "bulk_copy" and op["memory"] in ("k.shared", "v.shared")]
    return {op.get("row_step") or 1 for op in copies}


def widths(kernel: Kernel) -> set[int]:
    """Elements of loads of the bias."""
    return {op.result.vector.elements for op in kernel.walk() if op.name == "load" and op["memory"] == "bias"}


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("text", [MASKS, WIDE, BIASES], ids=["masks", "masks of 128 columns", "biases"])
def test_results_are_right_where_rows_and_columns_end(text: str, schedule: str) -> None:
    kernel = lowered(text, SCHEDULES[schedule])
    assert steps_of_boxes(kernel) == {4} and widths(kernel) == {8}
    for rows in (1, 129, 200):
        for order in ("forward", "reverse", 0):
            report, expected = run(text, kernel, order, rows)
            assert report.ok, report.render()
            np.testing.assert_array_equal(report.tensors["y"], expected)


@pytest.mark.parametrize(
    ("text", "schedule"),
    [
        (MASKS.replace(EIGHTS, "T: {multiple_of: 4}"), TOGETHER),
        (BIASES.replace("bias: {shape: [M, T], dtype: f16", "bias: {shape: [M, T], dtype: f32"), TOGETHER),
        (of_lanes(KERNELS["tiles that differ in steps"]), TOGETHER),
        (MASKS, CLUSTERS),
        (KERNELS["biases"], TOGETHER),
    ],
    ids=["rows of four", "runs of 32 bytes", "columns that are compared", "clusters", "tiles that boxes copy"],
)
def test_others_stay_as_they_are(text: str, schedule: str) -> None:
    assert steps_of_boxes(lowered(text, schedule)) == {1}


BUGS: dict[str, tuple[Bug, Sequence[str]]] = {
    "rows side by side": (altered("bulk_copy", "row_step", lambda _: 1, row_step=4), ["wrong"]),
    "one tensor's rows alone": (altered("bulk_copy", "row_step", lambda _: 1, memory="v.shared"), ["wrong"]),
    "the next lane's": (
        altered("load", "offset", lambda offset: offset + 8, memory="bias"),
        ["wrong", "out-of-bounds"],
    ),
    "columns behind the end": (
        altered("load", "mask", lambda mask: mask[:1], memory="bias"),
        ["wrong", "out-of-bounds"],
    ),
    "tiles that nobody waits for": (dropped("signal_wait", signal="at_T-k.full"), ["unwaited-copy", "race"]),
    "tiles that are never given back": (dropped("signal_arrive", signal="at_T-k.empty"), ["deadlock"]),
    "the other buffer": (
        altered("bulk_copy", "buffer", lambda buffer: (buffer + 1) % 2, memory="k.shared"),
        ["unwaited-copy", "race", "wrong"],
    ),
}


@pytest.mark.parametrize("name", BUGS)
def test_a_mistake_is_found(name: str) -> None:
    bug, kinds = BUGS[name]
    report, expected = run(BIASES, bug(lowered(BIASES, PERSISTENT)))
    wrong = set[str]() if np.array_equal(report.tensors["y"], expected) else {"wrong"}
    assert not (report.kinds() | wrong).isdisjoint(kinds), report.render()
