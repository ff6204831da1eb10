"""The element types of the language, and the type in which a matrix product of each is summed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, get_args

DType = Literal["f64", "f32", "bf16", "f16", "i64", "i32", "i16", "i8", "u8", "bool"]

DTYPES: tuple[str, ...] = get_args(DType)

ACCUMULATORS: Mapping[str, DType] = {
    "f64": "f64",
    "f32": "f32",
    "bf16": "f32",
    "f16": "f32",
    "i8": "i32",
    "u8": "i32",
}
