"""Conversions between element types, as all machines have them."""

from __future__ import annotations

from collections.abc import Callable

from wavespec.emit.elementwise import compare
from wavespec.emit.mlir_text import MlirText
from wavespec.emit.registers import mlir_type
from wavespec.ir.dtype import DTYPES, DType

_FLOAT = DTYPES["f32"]


def converted(
    text: MlirText,
    name: str,
    dtypes: tuple[DType, DType],
    types: tuple[str, str],
    convert: Callable[[str, DType, DType, str, str], str],
) -> str:
    """One SSA value of the first of two element types as one of the second; ``types`` are those of the values.
    ``convert`` makes the steps of conversions that go by way of f32."""
    (before, after), (old, new) = dtypes, types
    if after.kind == "bool":
        size = int(old[7:].partition("x")[0]) if old.startswith("vector") else 1
        return compare(text, "ne", name, text.constant(0, old), before, size)
    if old == new:  # signed and unsigned are one type
        return name
    small = [dtype.is_float and dtype.bits < _FLOAT.bits for dtype in dtypes]
    narrows = small[1] and before.bits > _FLOAT.bits  # as torch does it; LLVM's function for f16 gives 0 below 2^-14
    if all(small) or narrows or (any(small) and before.is_float != after.is_float):  # by way of f32
        middle = old.replace(mlir_type(before), mlir_type(_FLOAT))
        return convert(convert(name, before, _FLOAT, old, middle), _FLOAT, after, middle, new)
    return text.op(f"arith.{_verb(before, after)} {name} : {old} to {new}")


def _verb(before: DType, after: DType) -> str:
    if before.is_float and after.is_float:
        return "extf" if after.bits > before.bits else "truncf"
    if before.is_float:
        return "fptoui" if after.kind == "uint" else "fptosi"
    if after.is_float:
        return "sitofp" if before.kind == "int" else "uitofp"
    if after.bits <= before.bits:
        return "trunci"
    return "extsi" if before.kind == "int" else "extui"
