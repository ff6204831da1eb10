"""Shuffles that join the elements of several vectors: their text is executed on whole numbers."""

from __future__ import annotations

import re

import numpy as np
import pytest

from wavespec.emit.mlir_text import MlirText
from wavespec.emit.rows_joined import rows_joined

_LINE = re.compile(r"(%\w+) = (add|vector.shuffle) (%\w+), (%\w+)(?: \[([^]]*)\])?")


def joined(rows: np.ndarray, element: str) -> np.ndarray:
    text = MlirText()
    values = {f"%r{number}": row for number, row in enumerate(rows)}
    name = rows_joined(text, [*values], rows.shape[1], element, lambda one, two: text.op(f"add {one}, {two}"))
    for line in text.lines():
        found = _LINE.search(line)
        assert found is not None
        result, word, one, two, places = found.groups()
        both = values[one], values[two]
        values[result] = sum(both) if word == "add" else np.concatenate(both)[[*map(int, places.split(","))]]
    return values[name]


@pytest.mark.parametrize(
    ("width", "element"), [(16, "f32"), (8, "f32"), (4, "f32"), (8, "i64"), (4, "f64"), (2, "f64"), (16, "i16")]
)
def test_each_row_comes_to_one_element_in_order(width: int, element: str) -> None:
    block = np.arange(width * width).reshape(width, width) ** 2
    for count in (1 << bit for bit in range(1, width.bit_length())):
        np.testing.assert_array_equal(joined(block[:count], element)[:count], block[:count].sum(axis=1))


def test_a_shuffle_serves_two_rows() -> None:
    text = MlirText()
    rows_joined(text, [f"%r{row}" for row in range(8)], 8, "f32", lambda left, right: f"{left}_{right[1:]}")
    assert len(text.lines()) == 14
