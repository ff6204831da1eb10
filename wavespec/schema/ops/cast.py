"""`cast`: a value in another element type."""

from __future__ import annotations

from typing import ClassVar, Literal

from wavespec.diagnostics import quote
from wavespec.schema.dtypes import DType, is_computed
from wavespec.schema.names import Reference
from wavespec.schema.ops.base import Scope, ValueOp, ValueType
from wavespec.schema.ops.mma import DtypeMismatch


class Cast(ValueOp):
    """Converts a value: rounded to nearest even, or cut off to an integer, whose range it has to be in.

    A bool is 1 or 0; as a bool, a number is true unless it is 0.
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
        for field, dtype in (("dtype", self.dtype), ("value", value and value.dtype)):
            if dtype is not None and dtype != "bool" and not is_computed(dtype):
                what = "the result" if field == "dtype" else quote(self.value)
                message = f"'cast' converts bool, integers, and floating point of 16 bits or more; {what} is {dtype}."
                scope.report(DtypeMismatch(self.where(field), message))
        return ValueType(value.dims, self.dtype) if value else None
