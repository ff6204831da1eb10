"""Rows of tiles that boxes deal out, so that matrix loads hand out the bytes of each pair: right in any order and where rows
and columns end; and mistakes put into such kernels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from tests.lower.hopper_gemms import CLUSTERS, PING_PONG, TOGETHER
from tests.sim.planted_bugs import Bug, altered, dropped
from tests.sim.test_read_beside import BIASED, KERNELS, PERSISTENT, lowered, run
from wavespec.ir.kernel import Kernel

MASKS = KERNELS["masks"]
WIDE = MASKS.replace("{tiling: T, tile: 64}", "{tiling: T, tile: 128}")
BYTES = BIASED.replace("bias: {shape: [M, T], dtype: f16", "bias: {shape: [M, T], dtype: u8")
LEAST = (  # columns beyond the end would be the least ones
    MASKS.replace("where(bias_tile, s, 0)", "where(bias_tile, 2000, abs(s) + 1)")
    .replace("  - t_loop:\n", "  - most: {register: [M], dtype: f32, value: 10000}\n  - t_loop:\n")
    .replace("carry: {acc: zero}", "carry: {acc: zero, least: most}")
    .replace(
        "        - p: f16",
        "        - part: {min: added, dim: T}\n        - least: minimum(least, part)\n        - p: f16",
    )
    .replace("  - {write: t_loop.acc,", "  - both: t_loop.acc + t_loop.least\n  - {write: both,")
)
SCHEDULES = {
    "together": TOGETHER,
    "persistent": PERSISTENT,
    "in turn": PERSISTENT.replace("producers: 1", "producers: 1, order: in_turn"),
    "ping-pong": PING_PONG,
}


def steps_of_boxes(kernel: Kernel) -> set[int]:
    copies = [op for op in kernel.walk() if op.name == "bulk_copy" and op["memory"] in ("k.shared", "v.shared")]
    return {op.get("row_step") or 1 for op in copies}


def loads(kernel: Kernel) -> set[str]:
    """How lanes read the bias."""
    return {op.name for op in kernel.walk() if op.name.startswith("load") and op["memory"] == "bias.shared"}


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize(
    "text", [MASKS, WIDE, BYTES, LEAST], ids=["masks", "masks of 128 columns", "bytes", "sums over columns"]
)
def test_results_are_right_where_rows_and_columns_end(text: str, schedule: str) -> None:
    kernel = lowered(text, SCHEDULES[schedule])
    assert steps_of_boxes(kernel) == {2} and loads(kernel) == {"load_matrix"}
    for rows, order in ((1, "forward"), (129, "reverse"), (200, "forward"), (200, "reverse"), (200, 0)):
        report, expected = run(text, kernel, order, rows)
        assert report.ok, report.render()
        np.testing.assert_array_equal(report.tensors["y"], expected)


@pytest.mark.parametrize(
    ("text", "schedule"),
    [
        (KERNELS["biases"], TOGETHER),
        (MASKS.replace("where(bias_tile, s, 0)", "where(bias_tile, s, f32(index(T)))"), TOGETHER),
        (MASKS.replace("where(bias_tile, s, 0)", "where(bias_tile, s, f32(index(T) % 64))"), TOGETHER),
        (MASKS.replace("where(bias_tile, s, 0)", "where(bias_tile, s, f32(index(T) // 8 % 2))"), TOGETHER),
        (MASKS.replace("dtype: bool, space: shared", "dtype: bool"), TOGETHER),
        (MASKS, CLUSTERS),
    ],
    ids=["two bytes", "columns", "columns of a step", "fragments", "bytes that lanes load from the tensor", "clusters"],
)
def test_others_stay_as_they_are(text: str, schedule: str) -> None:
    """Their steps know more of where a column is than matrix loads, boxes and ends are told."""
    assert steps_of_boxes(lowered(text, schedule)) == {1}


BUGS: dict[str, tuple[Bug, Sequence[str]]] = {
    "rows side by side": (altered("bulk_copy", "row_step", lambda _: 1, row_step=2), ["wrong"]),
    "one tensor's rows alone": (altered("bulk_copy", "row_step", lambda _: 1, memory="v.shared"), ["wrong"]),
    "fewer rows of each part": (altered("bulk_copy", "row_step", lambda _: 4, row_step=2), ["wrong"]),
    "the next columns": (altered("load_matrix", "offset", lambda offset: offset + 16), ["wrong", "out-of-bounds"]),
    "ends of the order before": (altered("pad", "start", lambda start: start + 2), ["wrong"]),
    "tiles that nobody waits for": (dropped("signal_wait", signal="at_T-bias.full"), ["unwaited-copy", "race"]),
    "tiles that are never given back": (dropped("signal_arrive", signal="at_T-bias.empty"), ["deadlock"]),
    "the other buffer": (
        altered("load_matrix", "buffer", lambda buffer: (buffer + 1) % 2),
        ["unwaited-copy", "race", "wrong"],
    ),
}


@pytest.mark.parametrize("name", BUGS)
def test_a_mistake_is_found(name: str) -> None:
    bug, kinds = BUGS[name]
    report, expected = run(LEAST, bug(lowered(LEAST, PERSISTENT)))
    wrong = set[str]() if np.array_equal(report.tensors["y"], expected) else {"wrong"}
    assert not (report.kinds() | wrong).isdisjoint(kinds), report.render()
