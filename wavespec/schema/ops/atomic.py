"""`atomic`: a value is combined with what a tensor holds, and what it held before is a value."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from wavespec.diagnostics import WavespecError, Where, quote
from wavespec.schema.language.names import Name, Reference
from wavespec.schema.ops.base import Scope, ValueOp, ValueType
from wavespec.schema.ops.mapping import IndexMap
from wavespec.schema.ops.mma import DimsMismatch, DtypeMismatch
from wavespec.schema.ops.write import Written

Update = Literal["add", "max", "min", "and", "or", "xor", "exchange", "compare_and_swap"]


class ExpectedOfNothing(WavespecError, code="expected-of-nothing"):
    def __init__(self, where: Where, combine: str, *, is_there: bool) -> None:
        message = (
            f"{quote(combine)} compares with nothing."
            if is_there
            else "'compare_and_swap' has nothing to compare with what the tensor holds."
        )
        hint = "Leave 'expected' out." if is_there else "Say what an element has to be, to be replaced: 'expected: x'."
        super().__init__(where, message, hints=[hint])


class Atomic(Written, ValueOp):
    """Combines a value with what a tensor holds, each element in one indivisible step; the result is what an element of
    the tensor was right before.

    Elements that meet at one place find what those before them have left there. In which order they come, nobody knows:
    the old values are those of some order, another one in every call. What lies outside the tensor is not combined, and
    its old value is 0.
    """

    word: ClassVar[str] = "atomic"
    headline: ClassVar[tuple[str, ...]] = ("value",)

    op: Literal["atomic"] = "atomic"
    value: Reference
    """The value to combine."""
    to: Name
    """The tensor, of `role: inout`."""
    at: IndexMap = Field(default_factory=dict)
    """Dim of the tensor: index of the element, written as in `read`; absent: the value has the dims of the tensor."""
    combine: Update
    """What an element becomes: `add`, `max` or `min` of what it is and the value; of integers `and`, `or` or `xor` of
    their bits; `exchange`: the value; `compare_and_swap`, of integers: the value where the element is `expected`, else
    what it is."""
    expected: Reference | None = None
    """Of `compare_and_swap`: what an element has to be for the value to replace it; it has the dims and the type of the
    value."""

    @property
    def combination(self) -> str:
        return self.combine

    def infer(self, scope: Scope) -> ValueType | None:
        value = self.infer_written(scope)
        if (self.combine == "compare_and_swap") != (self.expected is not None):
            where = self.where("combine" if self.expected is None else "expected")
            scope.report(ExpectedOfNothing(where, self.combine, is_there=self.expected is not None))
            return None
        expected = scope.value(self, "expected") if self.expected is not None else value
        if value is None or expected is None:
            return None
        if expected != value:
            mismatch = DimsMismatch if expected.dims != value.dims else DtypeMismatch
            message = f"{quote(str(self.expected))} is {expected}; {quote(self.value)} is {value}."
            scope.report(mismatch(self.where("expected"), message, about=[str(self.expected), self.value]))
            return None
        return value
