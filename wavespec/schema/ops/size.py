"""`size`: how many elements there are along a dim, as a value."""

from __future__ import annotations

from typing import ClassVar, Literal, get_args

from wavespec.schema.language.dim_names import DimName
from wavespec.schema.ops.base import Scope, ValueOp, ValueType

SizeDType = Literal["i32", "i64", "f64", "f32", "bf16", "f16"]
SIZE_DTYPES: tuple[str, ...] = get_args(SizeDType)


class Size(ValueOp):
    """The size of a dim, known when the kernel is called: one number, without dims."""

    word: ClassVar[str] = "size"
    headline: ClassVar[tuple[str, ...]] = ("dim",)

    op: Literal["size"] = "size"
    dim: DimName
    """The dim."""
    dtype: SizeDType = "i32"
    """The element type of the result; one of floating point rounds the size."""

    def infer(self, scope: Scope) -> ValueType | None:
        return ValueType((), self.dtype) if scope.dim(self, "dim") else None
