"""`register`: a value that starts out as one number."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from wavespec.schema.language.dim_names import DimName
from wavespec.schema.language.dtypes import DType, fits
from wavespec.schema.language.errors import NumberOutOfRange
from wavespec.schema.ops.base import Scope, ValueOp, ValueType
from wavespec.schema.ops.read import named_dims


class Register(ValueOp):
    """A value in registers, filled with one number."""

    word: ClassVar[str] = "register"
    headline: ClassVar[tuple[str, ...]] = ("shape",)

    op: Literal["register"] = "register"
    shape: Annotated[tuple[DimName, ...], Field(max_length=16)]
    """Its dims."""
    dtype: DType
    """Its element type."""
    value: int | float
    """What every element starts as."""

    def infer(self, scope: Scope) -> ValueType | None:
        dims = named_dims(self, self.shape, scope, "shape")
        if not fits(self.value, self.dtype):
            scope.report(NumberOutOfRange(self.where("value"), str(self.value), f"the numbers of {self.dtype}"))
        return None if dims is None else ValueType(dims, self.dtype)
