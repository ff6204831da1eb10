"""Windows into two accesses: their text is executed on numbered elements."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from wavespec.emit.mlir_text import MlirText
from wavespec.emit.rearranged import window
from wavespec.ir.dtype import DTYPES


def executed(text: MlirText, known: dict[str, Any]) -> dict[str, Any]:
    """Values by name: vectors as bytes, words as integers."""
    values = dict(known)
    for line in text.lines():
        result, verb, rest = re.match(r'\s*(%\w+) = "?([\w.]+)"?(.*)', line).groups()  # pyright: ignore[reportOptionalMemberAccess]
        given = [values[name] for name in re.findall(r"%\w+", rest)]
        number = re.search(r"\[?(-?\d+)\]? : i32", rest)
        match verb.rpartition(".")[2]:
            case "constant":
                values[result] = int(number[1]) if number else 0
            case "bitcast":
                values[result] = given[0]
            case "extract":
                values[result] = int(given[0].view(np.uint32)[int(number[1]) if number else 0])
            case "muli":
                values[result] = given[0] * given[1]
            case "andi":
                values[result] = given[0] & given[1]
            case "cmpi":
                values[result] = given[0] != given[1]
            case "select":
                values[result] = given[1] if given[0] else given[2]
            case "fshr":
                high, low, by = given
                values[result] = (high << 32 | low) >> by % 32 & 0xFFFFFFFF
            case _:
                assert verb == "vector.from_elements", verb
                values[result] = np.array(given, np.uint32).view(np.uint8)
    return values


@pytest.mark.parametrize("dtype", ["f64", "f32", "i32", "bf16", "f16", "i8"])
def test_elements_from_any_place_on_come_out(dtype: str) -> None:
    size = 16 // DTYPES[dtype].bytes
    block = np.arange(32, dtype=np.uint8)
    for start in range(size):
        text = MlirText()
        name = window(text, "%block", DTYPES[dtype], 2 * size, size, "%start")
        found = executed(text, {"%block": block, "%start": start})[name]
        first = start * DTYPES[dtype].bytes
        np.testing.assert_array_equal(found, block[first : first + 16])


@pytest.mark.parametrize("dtype", ["bf16", "i8"])
def test_elements_come_out_of_one_and_a_half_times_as_many(dtype: str) -> None:
    size = 16 // DTYPES[dtype].bytes
    block = np.arange(24, dtype=np.uint8)
    for start in range(size // 2):
        text = MlirText()
        name = window(text, "%block", DTYPES[dtype], 3 * size // 2, size, "%start")
        found = executed(text, {"%block": block, "%start": start})[name]
        first = start * DTYPES[dtype].bytes
        np.testing.assert_array_equal(found, block[first : first + 16])


@pytest.mark.parametrize(
    ("dtype", "elements", "selects", "shifts"), [("f32", 8, 9, 0), ("bf16", 16, 11, 4), ("bf16", 12, 5, 4)]
)
def test_words_that_no_element_needs_are_not_chosen(dtype: str, elements: int, selects: int, shifts: int) -> None:
    text, size = MlirText(), 16 // DTYPES[dtype].bytes
    window(text, "%block", DTYPES[dtype], elements, size, "%start")
    lines = "\n".join(text.lines())
    assert (lines.count("arith.select"), lines.count("fshr")) == (selects, shifts)
