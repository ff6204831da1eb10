"""Registers in parts: what is cut out of them, and how much text that takes."""

from __future__ import annotations

import pytest

from wavespec.emit.mlir_text import MlirText
from wavespec.emit.registers import Part, sliced
from wavespec.ir.dtype import DTYPES

F32 = DTYPES["f32"]


def parts(*sizes: int) -> tuple[Part, ...]:
    return tuple(Part(f"%p{number}", size) for number, size in enumerate(sizes))


def test_a_slice_that_is_a_part_takes_no_operation() -> None:
    text = MlirText()
    assert sliced(text, parts(4, 4, 4), F32, 4, 4) == Part("%p1", 4)
    assert text.lines() == []


def test_a_slice_across_parts_joins_what_it_takes_of_each() -> None:
    text = MlirText()
    assert sliced(text, parts(4, 4, 4), F32, 3, 6).size == 6
    verbs = [line.split(" = ")[1].split()[0] for line in text.lines()]
    assert verbs == [
        "arith.constant",
        "vector.extract",
        "vector.extract",
        "vector.insert",
        "vector.insert_strided_slice",
        "vector.insert",
    ]


@pytest.mark.parametrize("count", [8, 512])
def test_a_slice_leaves_parts_that_it_does_not_take(count: int) -> None:
    text = MlirText()
    sliced(text, parts(*[16] * count), F32, 16, 8)
    assert len(text.lines()) == 1
