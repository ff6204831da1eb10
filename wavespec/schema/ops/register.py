"""`register`: a value that starts out as one number."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from wavespec.schema.dtypes import DType
from wavespec.schema.names import Name
from wavespec.schema.ops.base import Scope, ValueOp, ValueType
from wavespec.schema.yaml_source import NumberOutOfRange

_LARGEST_FLOATS: Mapping[str, float] = {
    "f64": 1.7976931348623157e308,
    "f32": 3.4028234663852886e38,
    "bf16": 3.3895313892515355e38,
    "f16": 65504.0,
}
_INTEGER_RANGES: Mapping[str, tuple[int, int]] = {
    "i64": (-(2**63), 2**63 - 1),
    "i32": (-(2**31), 2**31 - 1),
    "i16": (-(2**15), 2**15 - 1),
    "i8": (-(2**7), 2**7 - 1),
    "u8": (0, 2**8 - 1),
    "bool": (0, 1),
}


class Register(ValueOp):
    """A value in registers, filled with one number."""

    word: ClassVar[str] = "register"
    headline: ClassVar[tuple[str, ...]] = ("shape",)

    op: Literal["register"] = "register"
    shape: Annotated[tuple[Name, ...], Field(max_length=16)]
    """Its dims."""
    dtype: DType
    """Its element type."""
    value: int | float
    """What every element starts as."""

    def infer(self, scope: Scope) -> ValueType | None:
        dims = [scope.dim(self, "shape", index) for index in range(len(self.shape))]
        if not _fits(self.value, self.dtype):
            scope.report(NumberOutOfRange(self.where("value"), str(self.value), f"the numbers of {self.dtype}"))
        return ValueType(self.shape, self.dtype) if all(dims) else None


def _fits(value: int | float, dtype: DType) -> bool:
    if dtype in _LARGEST_FLOATS:
        return abs(value) <= _LARGEST_FLOATS[dtype] or math.isinf(value)  # the start of a maximum
    low, high = _INTEGER_RANGES[dtype]
    return low <= value <= high and not math.isinf(value) and value == int(value)
