"""Element types of tensors, tiles and registers: the one table of them, which every layer reads."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal


@dataclass(frozen=True, slots=True, eq=False)
class DType:
    """One element type; ``name`` is the word used in specs and in printed IR.

    There is one of each name, so that they are told apart by identity.
    """

    name: str
    bits: int
    kind: Literal["float", "int", "uint", "bool"]
    number: str
    """What numpy and ml_dtypes call one number of it."""
    largest: float | int
    mantissa: int = 0
    """Bits of the mantissa that are written."""
    has_infinity: bool = False
    summed_in: str = ""
    """The type that a matrix product of it sums up in; none: it has no products without scales."""
    stored: str = ""
    """What torch calls the elements of a tensor; several of ours share one of them where they are packed."""

    @property
    def torch(self) -> str:
        return self.stored or self.number

    @property
    def smallest(self) -> float | int:
        if self.kind == "float":
            return -self.largest
        return -self.largest - 1 if self.kind == "int" else 0

    @property
    def bytes(self) -> int:
        """Bytes of one element in registers, and in memory where it is not packed."""
        return max(1, self.bits // 8)

    @property
    def stored_bits(self) -> int:
        """Bits of one element in a tensor; a bool takes a byte there."""
        return max(self.bits, 8) if self.kind == "bool" else self.bits

    @property
    def is_packed(self) -> bool:
        """Whether elements share bytes in tensors, the first one in the lowest bits."""
        return 1 < self.bits < 8

    @property
    def packed(self) -> tuple[int, int]:
        """As few elements as fill whole bytes in a tensor, and these bytes."""
        group = math.lcm(self.bits, 8)
        return group // self.bits, group // 8

    @property
    def is_float(self) -> bool:
        return self.kind == "float"

    @property
    def bias(self) -> int:
        """Of the exponent, where it is that of IEEE 754."""
        return (1 << (self.bits - 2 - self.mantissa)) - 1

    def __str__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[Callable[[str], DType], tuple[str]]:
        return _named, (self.name,)


def _named(name: str) -> DType:
    return DTYPES[name]


DTYPES: dict[str, DType] = {
    dtype.name: dtype
    for dtype in (
        DType("f64", 64, "float", "float64", 1.7976931348623157e308, 52, True, "f64"),
        DType("f32", 32, "float", "float32", 3.4028234663852886e38, 23, True, "f32"),
        DType("bf16", 16, "float", "bfloat16", 3.3895313892515355e38, 7, True, "f32"),
        DType("f16", 16, "float", "float16", 65504.0, 10, True, "f32"),
        DType("f8e4m3fn", 8, "float", "float8_e4m3fn", 448.0, 3, False, "f32"),
        DType("f8e5m2", 8, "float", "float8_e5m2", 57344.0, 2, True, "f32"),
        DType("f8e4m3fnuz", 8, "float", "float8_e4m3fnuz", 240.0, 3, False, "f32"),
        DType("f8e5m2fnuz", 8, "float", "float8_e5m2fnuz", 57344.0, 2, False, "f32"),
        DType("f8e8m0fnu", 8, "float", "float8_e8m0fnu", 2.0**127),
        DType("f6e2m3fn", 6, "float", "float6_e2m3fn", 7.5, 3, stored="uint8"),
        DType("f6e3m2fn", 6, "float", "float6_e3m2fn", 28.0, 2, stored="uint8"),
        DType("f4e2m1fn", 4, "float", "float4_e2m1fn", 6.0, 1, stored="float4_e2m1fn_x2"),
        DType("i64", 64, "int", "int64", 2**63 - 1),
        DType("i32", 32, "int", "int32", 2**31 - 1),
        DType("i16", 16, "int", "int16", 2**15 - 1),
        DType("i8", 8, "int", "int8", 2**7 - 1, summed_in="i32"),
        DType("i4", 4, "int", "int4", 2**3 - 1, stored="uint8"),
        DType("u8", 8, "uint", "uint8", 2**8 - 1, summed_in="i32"),
        DType("bool", 1, "bool", "bool", 1),
    )
}

SCALED_PRODUCT: Final = "bf16"
"""What an element times a power of two is: it has all bits of an element of 8 bits or less and all exponents of a
scale, so that nothing is lost but what leaves its range."""


def computed(dtype: DType) -> DType:
    """What elements are joined in: small floats in f32."""
    return DTYPES["f32"] if dtype.is_float and dtype.bits < 32 else dtype
