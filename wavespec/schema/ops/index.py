"""`index`: the coordinates along a dim as a value."""

from __future__ import annotations

from typing import ClassVar, Literal

from wavespec.schema.language.dim_names import DimName
from wavespec.schema.ops.base import Scope, ValueOp, ValueType


class Index(ValueOp):
    """The place of each element along a dim, counted from 0 over the whole tensor."""

    word: ClassVar[str] = "index"
    headline: ClassVar[tuple[str, ...]] = ("dim",)

    op: Literal["index"] = "index"
    dim: DimName
    """The dim; the result has no other."""
    dtype: Literal["i32", "i64"] = "i32"
    """The element type of the result."""

    def infer(self, scope: Scope) -> ValueType | None:
        return ValueType((self.dim,), self.dtype) if scope.dim(self, "dim") else None
