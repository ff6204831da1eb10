"""`bitcast`: the bits of a value as another element type."""

from __future__ import annotations

import re
from typing import ClassVar, Literal

from wavespec.diagnostics import quote
from wavespec.schema.language.dtypes import DType
from wavespec.schema.language.names import Reference
from wavespec.schema.ops.base import Scope, ValueOp, ValueType
from wavespec.schema.ops.mma import DtypeMismatch


class Bitcast(ValueOp):
    """Takes the bits of a value for those of another element type of the same size."""

    word: ClassVar[str] = "bitcast"
    headline: ClassVar[tuple[str, ...]] = ("value",)

    op: Literal["bitcast"] = "bitcast"
    value: Reference
    """The value."""
    dtype: DType
    """The element type of the result."""

    def infer(self, scope: Scope) -> ValueType | None:
        value = scope.value(self, "value")
        if value is None:
            return None
        mine, theirs = _bits(value.dtype), _bits(self.dtype)
        if mine != theirs:
            message = f"'bitcast' keeps every bit; {quote(self.value)} is {value.dtype}, and {self.dtype} is "
            message += "no type with as many bits."
            scope.report(DtypeMismatch(self.where("dtype"), message, about=[self.value]))
        return ValueType(value.dims, self.dtype)


def _bits(dtype: DType) -> int:
    """The number that the name of an element type begins with; a bool is one bit."""
    number = re.match(r"[a-z]+(\d+)", dtype)
    return int(number[1]) if number else 1
