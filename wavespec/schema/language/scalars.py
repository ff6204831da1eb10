"""The model of a scalar: a Python number that a call passes beside its tensors."""

from __future__ import annotations

from typing import Annotated, Literal, get_args

from pydantic import Field

from wavespec.schema.language.base import SpecModel
from wavespec.schema.language.dtypes import fits

ScalarDType = Literal["f64", "f32", "bf16", "f16", "i64", "i32", "bool"]
SCALAR_DTYPES: tuple[str, ...] = get_args(ScalarDType)

Number = bool | int | float


class Scalar(SpecModel):
    """A Python number that a call passes by its name: part of the operator's schema, no tensor, no synchronisation."""

    dtype: ScalarDType
    """The element type of its value in the graph, to which a call rounds numbers of floating point."""
    default: Number | None = None
    """What it is where a call does not say; absent: every call has to."""
    min: int | float | None = None
    """The smallest number, checked at the call. The compiler relies on the limits of integers."""
    max: int | float | None = None
    """The largest number; NaN is in no limits."""
    doc: Annotated[str, Field(max_length=1_000)] = ""
    """What it is for, in the docstring of the function."""

    @property
    def is_float(self) -> bool:
        return self.dtype not in ("i64", "i32", "bool")

    @property
    def limits(self) -> tuple[int, int]:
        """The smallest and the largest number of an integer, or of a bool, which counts as 0 and 1."""
        if self.dtype == "bool":
            return 0, 1
        largest = 2**31 - 1 if self.dtype == "i32" else 2**63 - 1
        return (
            -largest - 1 if self.min is None else max(int(self.min), -largest - 1),
            largest if self.max is None else min(int(self.max), largest),
        )


def number_problem(scalar: Scalar, number: Number) -> str | None:
    """Why `number` is no default of a scalar, as the end of a sentence; `None` where it is one."""
    if scalar.dtype == "bool" or isinstance(number, bool):
        of_bool = scalar.dtype == "bool" and isinstance(number, bool)
        return None if of_bool else f"which is no number of {scalar.dtype}"
    if not scalar.is_float and not isinstance(number, int):
        return f"which is no number of {scalar.dtype}"
    if not abs(number) < float("inf"):
        return "which is not finite"
    if not fits(number, scalar.dtype):
        return f"beyond the numbers of {scalar.dtype}"
    if scalar.min is not None and number < scalar.min:
        return f"less than its smallest number {scalar.min}"
    if scalar.max is not None and number > scalar.max:
        return f"more than its largest number {scalar.max}"
    return None
