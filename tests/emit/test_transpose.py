"""Shuffles that transpose: their text is executed on numbered elements."""

from __future__ import annotations

import re

import numpy as np
import pytest

from wavespec.emit.mlir_text import MlirText
from wavespec.emit.transpose import transposed_lines


def executed(text: MlirText, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    values = dict(inputs)
    for line in text.lines():
        result, left, right, pattern = re.match(r"(%\w+) = vector.shuffle (%\w+), (%\w+) \[([^]]*)\]", line).groups()  # pyright: ignore[reportOptionalMemberAccess]
        values[result] = np.concatenate([values[left], values[right]])[[int(number) for number in pattern.split(",")]]
    return values


@pytest.mark.parametrize(
    ("width", "element"),
    [(16, "f32"), (16, "i32"), (8, "f32"), (8, "i64"), (8, "f64"), (4, "f64"), (4, "f32"), (32, "i16"), (64, "i8")],
)
def test_columns_come_out(width: int, element: str) -> None:
    text, block = MlirText(), np.arange(width * width).reshape(width, width)
    columns = transposed_lines(text, [f"%r{row}" for row in range(width)], width, element)
    values = executed(text, {f"%r{row}": block[row] for row in range(width)})
    np.testing.assert_array_equal([values[name] for name in columns], block.T)


def test_every_stage_is_one_shuffle_per_row() -> None:
    text = MlirText()
    transposed_lines(text, [f"%r{row}" for row in range(16)], 16, "f32")
    assert len(text.lines()) == 4 * 16


def test_a_block_that_is_not_square_is_a_bug() -> None:
    with pytest.raises(AssertionError, match="not square"):
        transposed_lines(MlirText(), ["%a"], 16, "f32")
