"""`cast`: a value in another element type."""

from __future__ import annotations

from typing import ClassVar, Literal

from wavespec.diagnostics import quote
from wavespec.schema.language.dtypes import DType
from wavespec.schema.language.names import Reference
from wavespec.schema.ops.base import Scope, ValueOp, ValueType
from wavespec.schema.ops.mma import DtypeMismatch


class Cast(ValueOp):
    """Converts a value: rounded to nearest even, or cut off to an integer, whose range it has to be in.

    What is too large for f8e4m3fn, f6 and f4 becomes their largest number, for other types what torch makes of it:
    infinity or NaN. NaN becomes the largest number of f6 and f4. A bool is 1 or 0; as a bool, a number is true unless
    it is 0.
    """

    word: ClassVar[str] = "cast"
    headline: ClassVar[tuple[str, ...]] = ("value",)

    op: Literal["cast"] = "cast"
    value: Reference
    """The value to convert."""
    dtype: DType
    """The element type of the result."""

    def infer(self, scope: Scope) -> ValueType | None:
        value = scope.value(self, "value")
        if value is not None and value.dtype in ("f8e4m3fnuz", "f8e5m2fnuz"):
            message = f"'cast' does not take {value.dtype}, which {quote(self.value)} is: it is for matrix products."
            scope.report(DtypeMismatch(self.where("value"), message, about=[self.value]))
        return ValueType(value.dims, self.dtype) if value else None
