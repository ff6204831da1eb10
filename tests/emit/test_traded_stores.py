"""Lanes side by side trade words of results: each stores 16 bytes of one row, and only where rows end between such."""

from __future__ import annotations

import re

import pytest

from tests.emit.test_hopper import NVIDIA
from tests.sim.test_issue_in_turn import PERSISTENT
from tests.sim.test_read_beside import BIASED, with_room_for
from wavespec.emit.thread_to_mlir import thread_to_mlir
from wavespec.emit.traded_stores import traded
from wavespec.pipeline import lower
from wavespec.schema import loads

ROUNDED = (
    BIASED.replace("y: {shape: [M, N], dtype: f32", "y: {shape: [M, N], dtype: f16")
    .replace("write: t_loop.acc", "write: rounded")
    .replace("  - {write", "  - rounded: f16(t_loop.acc)\n  - {write")
)
FULL = 2 * (128 + 2 * (64 + 64) + 2 * 128) * 64 + 1024
"""Bytes that operands and biases fill, so that results do not leave by boxes."""


def text_of(spec: str) -> str:
    machine = with_room_for(FULL)
    return thread_to_mlir(lower(loads(spec.replace("SCHEDULE", PERSISTENT)), machine), NVIDIA, "#layout").text


def stored(text: str) -> set[str]:
    """Types of what is stored to tensors."""
    return set(re.findall(r'"llvm\.store"\(.*\) <\{.*\}> : \((\S+), !llvm\.ptr<1>\)', text))


def test_every_lane_gets_its_word_of_all_lanes() -> None:
    lanes = range(4)
    words = [[(lane, word) for lane in lanes] for word in range(4)]
    result = traded(
        words,
        lambda bit, yes, no: [yes[lane] if lane & bit else no[lane] for lane in lanes],
        lambda word, bit: [word[lane ^ bit] for lane in lanes],
    )
    assert [[word[lane] for word in result] for lane in lanes] == [[(of, lane) for of in lanes] for lane in lanes]


def test_results_of_products_are_stored_by_16_bytes() -> None:
    text = text_of(ROUNDED)
    assert stored(text) == {"vector<4xi32>"}
    assert text.count("nvvm.shfl.sync bfly") == 4 * text.count('"llvm.store"'), "four moves for four words"


@pytest.mark.parametrize(
    "change",
    [("N: {value: 64}", "N: {multiple_of: 2}"), ("dtype: f16, role: output", "dtype: f32, role: output")],
    ids=["rows that end within 16 bytes", "words of one element"],
)
def test_others_are_stored_as_they_are(change: tuple[str, str]) -> None:
    spec = ROUNDED.replace(*change).replace("constraints:\n", "constraints:\n  - {workgroup: N, tile: 64, axis: 1}\n")
    if "f32, role" in change[1]:
        spec = spec.replace("rounded: f16(", "rounded: f32(")
    assert "vector<4xi32>" not in stored(text_of(spec))
