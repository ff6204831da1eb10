"""Element types of tensors, tiles and registers: name, size in bits, and what kind of number they hold."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class DType:
    """One element type; ``name`` is the word used in specs and in printed IR."""

    name: str
    bits: int
    kind: Literal["float", "int", "uint", "bool"]

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

    def __str__(self) -> str:
        return self.name


DTYPES: dict[str, DType] = {
    dtype.name: dtype
    for dtype in (
        DType("f64", 64, "float"),
        DType("f32", 32, "float"),
        DType("f16", 16, "float"),
        DType("bf16", 16, "float"),
        DType("f8e4m3fn", 8, "float"),
        DType("f8e5m2", 8, "float"),
        DType("f8e4m3fnuz", 8, "float"),
        DType("f8e5m2fnuz", 8, "float"),
        DType("f8e8m0fnu", 8, "float"),
        DType("f6e2m3fn", 6, "float"),
        DType("f6e3m2fn", 6, "float"),
        DType("f4e2m1fn", 4, "float"),
        DType("i64", 64, "int"),
        DType("i32", 32, "int"),
        DType("i16", 16, "int"),
        DType("i8", 8, "int"),
        DType("i4", 4, "int"),
        DType("u8", 8, "uint"),
        DType("bool", 1, "bool"),
    )
}
