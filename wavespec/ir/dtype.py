"""Element types of tensors, tiles and registers: name, size in bits, and what kind of number they hold."""

from __future__ import annotations

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
        """Bytes of one element in memory."""
        return max(1, self.bits // 8)

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
        DType("f8e4m3fn", 8, "float"),
        DType("f8e5m2", 8, "float"),
        DType("f8e4m3fnuz", 8, "float"),
        DType("f8e5m2fnuz", 8, "float"),
        DType("i64", 64, "int"),
        DType("i32", 32, "int"),
        DType("i16", 16, "int"),
        DType("i8", 8, "int"),
        DType("u8", 8, "uint"),
        DType("bool", 1, "bool"),
    )
}
