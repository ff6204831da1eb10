"""Sums of the elements of vectors, joined: their text is executed on numbers."""

from __future__ import annotations

import re

import numpy as np
import pytest

from wavespec.emit.joined_lanes import joined_lanes
from wavespec.emit.mlir_text import MlirText

_OP = re.compile(r"(%\w+) = (\S+) (%\w+), (%\w+)(?: \[([^]]*)\])?")


def executed(text: MlirText, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    values = dict(inputs)
    for line in text.lines():
        result, verb, left, right, pattern = _OP.match(line).groups()  # pyright: ignore[reportOptionalMemberAccess]
        one, other = values[left], values[right]
        is_shuffle = verb == "vector.shuffle"
        values[result] = np.concatenate([one, other])[[*map(int, pattern.split(","))]] if is_shuffle else one + other
    return values


@pytest.mark.parametrize("width_element", [(16, "f32"), (8, "f32"), (4, "f32"), (16, "i32"), (8, "f64"), (2, "f64")])
def test_sums_come_out_in_their_order(width_element: tuple[int, str]) -> None:
    """However many vectors there are: those that are not there cost nothing and stand in nobody's way."""
    width, element = width_element
    for vectors in range(1, width + 1):
        text, rows = MlirText(), np.arange(vectors * width).reshape(vectors, width) ** 2
        name = joined_lanes(text, [f"%r{row}" for row in range(vectors)], width, element, "arith.addf")
        found = executed(text, {f"%r{row}": line for row, line in enumerate(rows)})[name]
        np.testing.assert_array_equal(found[:vectors], rows.sum(axis=1))


def test_each_stage_has_half_as_many_operations() -> None:
    text = MlirText()
    joined_lanes(text, [f"%r{row}" for row in range(16)], 16, "f32", "arith.addf")
    assert len(text.lines()) == 3 * (8 + 4 + 2 + 1)
