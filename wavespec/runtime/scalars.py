"""What a kernel says of the numbers that a call passes beside its tensors, and the words in which it gets them."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

from wavespec.runtime.number_expr import NumberExpr

Number = bool | int | float
Passed = Number | None
"""What a call has for a scalar: None where its default follows from the sizes of the call."""

FORMATS: Final = {"f64": "d", "f32": "f", "bf16": "f", "f16": "f", "i64": "q", "i32": "i", "bool": "i"}
"""The types of scalars, with as what `struct` packs the integer, or the bits of f64 or f32, that a kernel gets."""
SCALAR_WORDS: Final = {dtype: struct.calcsize(f"<{code}") // 4 for dtype, code in FORMATS.items()}
"""The words of 32 bits that a kernel gets for one, the lower one first."""


@dataclass(frozen=True, slots=True)
class ScalarParameter:
    """One number of a call, passed by name."""

    name: str
    dtype: str
    default: Number | None = None
    """None where every call has to say, or where it is `computed`."""
    least: int | float | None = None
    most: int | float | None = None
    shapes: bool = False
    """Whether sizes of tensors, what a kernel assumes of them, or which case a call is, depend on it."""
    computed: NumberExpr | None = None
    """What it is where a call says nothing, of the sizes of its dims; scalars that shape a call have none."""

    @property
    def type(self) -> type:
        """What it is in Python."""
        return bool if self.dtype == "bool" else int if self.dtype in ("i64", "i32") else float


def words_of(dtype: str) -> int:
    """Words of 32 bits that a kernel gets for a scalar of the type."""
    return SCALAR_WORDS[dtype]


def held(number: Number, dtype: str) -> int:
    """The integer that kernels have for a number of a type: of floating point, the signed one with its bits."""
    if FORMATS[dtype] not in "df":
        return int(number)
    (bits,) = struct.unpack("<q" if dtype == "f64" else "<i", struct.pack(f"<{FORMATS[dtype]}", number))
    return bits


def rounded(number: Number, dtype: str) -> Number:
    """The nearest number of a type; integers and bools as they are.

    Raises:
        OverflowError: it is finite and beyond the largest one.
    """
    if dtype == "f16":
        return struct.unpack("<e", struct.pack("<e", number))[0]
    if dtype == "f32":
        return struct.unpack("<f", struct.pack("<f", number))[0]
    if dtype != "bf16" or number != number:
        return number
    (bits,) = struct.unpack("<I", struct.pack("<f", number))
    bits = bits + 0x7FFF + (bits >> 16 & 1) & 0xFFFF0000
    (nearest,) = struct.unpack("<f", struct.pack("<I", bits))
    if abs(nearest) == float("inf") != abs(number):
        raise OverflowError("beyond the largest number of bf16")
    return nearest
