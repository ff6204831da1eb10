"""The element types of the language: their numbers, and the type in which a matrix product of each is summed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal, cast, get_args

from wavespec.ir.dtype import DTYPES as _ROWS

DType = Literal[
    "f64",
    "f32",
    "bf16",
    "f16",
    "f8e4m3fn",
    "f8e5m2",
    "f8e4m3fnuz",
    "f8e5m2fnuz",
    "f8e8m0fnu",
    "f6e2m3fn",
    "f6e3m2fn",
    "f4e2m1fn",
    "i64",
    "i32",
    "i16",
    "i8",
    "i4",
    "u8",
    "bool",
]

DTYPES: tuple[str, ...] = get_args(DType)

ACCUMULATORS: Mapping[str, DType] = {name: cast(DType, row.summed_in) for name, row in _ROWS.items() if row.summed_in}

PACKED: Mapping[str, int] = {name: row.packed[0] for name, row in _ROWS.items() if row.is_packed}
"""Of types whose elements share bytes in tensors: as few of them as fill whole bytes."""

SCALED: tuple[DType, ...] = ("bf16", "f8e4m3fn", "f8e5m2", "f6e2m3fn", "f6e3m2fn", "f4e2m1fn")
"""What a matrix product with scales multiplies: the elements of OCP MX, and what has all of their numbers."""

SCALES: tuple[DType, ...] = ("f8e8m0fnu", "f32")
"""What it scales them by."""


def is_float(dtype: str) -> bool:
    return _ROWS[dtype].is_float


def is_computed(dtype: str) -> bool:
    """Whether ops on single elements take the type; others are for tensors, casts and matrix products."""
    return dtype != "bool" and dtype not in PACKED and not dtype.startswith("f8")


INTEGERS: tuple[str, ...] = tuple(name for name in DTYPES if is_computed(name) and not is_float(name))
"""Element types of whole numbers that ops on single elements take."""


def is_wider(one: str, other: str) -> bool:
    """Whether `one` has numbers beyond those of `other`, with fractions where that has whole ones."""

    def reach(dtype: str) -> tuple[bool, float]:
        return (is_float(dtype), float(_ROWS[dtype].largest))

    return reach(one) > reach(other)


def fits(value: int | float, dtype: DType) -> bool:
    """Whether a number is one of the type, rounded where it is a floating point type; infinity is, where it exists."""
    row = _ROWS[dtype]
    if row.is_float:
        return abs(value) <= row.largest or math.isnan(value) or (math.isinf(value) and row.has_infinity)
    return row.smallest <= value <= row.largest and not math.isinf(value) and value == int(value)
