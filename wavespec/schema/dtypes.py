"""The element types of the language: their numbers, and the type in which a matrix product of each is summed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal, get_args

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

ACCUMULATORS: Mapping[str, DType] = {
    "f64": "f64",
    "f32": "f32",
    "bf16": "f32",
    "f16": "f32",
    "f8e4m3fn": "f32",
    "f8e5m2": "f32",
    "f8e4m3fnuz": "f32",
    "f8e5m2fnuz": "f32",
    "i8": "i32",
    "u8": "i32",
}

PACKED: Mapping[str, int] = {"f6e2m3fn": 4, "f6e3m2fn": 4, "f4e2m1fn": 2, "i4": 2}
"""Of types whose elements share bytes in tensors: as few of them as fill whole bytes."""

SCALED: tuple[DType, ...] = ("f8e4m3fn", "f8e5m2", "f6e2m3fn", "f6e3m2fn", "f4e2m1fn")
"""What a matrix product with scales multiplies: the elements of OCP MX."""

_LARGEST_FLOATS: Mapping[str, float] = {
    "f64": 1.7976931348623157e308,
    "f32": 3.4028234663852886e38,
    "bf16": 3.3895313892515355e38,
    "f16": 65504.0,
    "f8e4m3fn": 448.0,
    "f8e5m2": 57344.0,
    "f8e4m3fnuz": 240.0,
    "f8e5m2fnuz": 57344.0,
    "f8e8m0fnu": 2.0**127,
    "f6e2m3fn": 7.5,
    "f6e3m2fn": 28.0,
    "f4e2m1fn": 6.0,
}
_WITHOUT_INFINITY = ("f8e4m3fn", "f8e4m3fnuz", "f8e5m2fnuz", "f8e8m0fnu", "f6e2m3fn", "f6e3m2fn", "f4e2m1fn")
_INTEGER_RANGES: Mapping[str, tuple[int, int]] = {
    "i64": (-(2**63), 2**63 - 1),
    "i32": (-(2**31), 2**31 - 1),
    "i16": (-(2**15), 2**15 - 1),
    "i8": (-(2**7), 2**7 - 1),
    "i4": (-(2**3), 2**3 - 1),
    "u8": (0, 2**8 - 1),
    "bool": (0, 1),
}


def is_float(dtype: str) -> bool:
    return dtype in _LARGEST_FLOATS


def is_computed(dtype: str) -> bool:
    """Whether ops on single elements take the type; others are for tensors, casts and matrix products."""
    return dtype != "bool" and dtype not in PACKED and not dtype.startswith("f8")


def is_wider(one: str, other: str) -> bool:
    """Whether `one` has numbers beyond those of `other`, with fractions where that has whole ones."""

    def reach(dtype: str) -> tuple[bool, float]:
        largest = _LARGEST_FLOATS[dtype] if is_float(dtype) else float(_INTEGER_RANGES[dtype][1])
        return (is_float(dtype), largest)

    return reach(one) > reach(other)


def fits(value: int | float, dtype: DType) -> bool:
    """Whether a number is one of the type, rounded where it is a floating point type; infinity is, where it exists."""
    if dtype in _LARGEST_FLOATS:
        has_infinity = dtype not in _WITHOUT_INFINITY
        return abs(value) <= _LARGEST_FLOATS[dtype] or math.isnan(value) or (math.isinf(value) and has_infinity)
    low, high = _INTEGER_RANGES[dtype]
    return low <= value <= high and not math.isinf(value) and value == int(value)
