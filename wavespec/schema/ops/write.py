"""`write`: a value into an output tensor."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from wavespec.diagnostics import WavespecError, Where, quote
from wavespec.schema.names import Name, Reference
from wavespec.schema.ops.base import EffectOp, Scope, ValueType
from wavespec.schema.ops.mapping import IndexMap, check_mapping
from wavespec.schema.ops.mma import DimsMismatch, DtypeMismatch


class WriteToInput(WavespecError, code="write-to-input"):
    def __init__(self, where: Where, tensor: str) -> None:
        super().__init__(
            where,
            f"{quote(tensor)} is an input; only an output can be written.",
            hints=[f"Give {quote(tensor)} 'role: output' under 'tensors'."],
        )


class Write(EffectOp):
    """Writes a value to a tensor of the same dims and dtype.

    An index mapping, `at`, says which element of the tensor each element of the value becomes.
    """

    word: ClassVar[str] = "write"
    headline: ClassVar[tuple[str, ...]] = ("value",)

    op: Literal["write"] = "write"
    value: Reference
    """The value to write."""
    to: Name
    """The output tensor."""
    at: IndexMap = Field(default_factory=dict)
    """Dim of the tensor: index of the element, written as in `read`; with it, dims may have any order. What lies
    outside the tensor is not written. An element that no element of the value becomes is left as it is, and one that
    several become has one of them."""

    def infer(self, scope: Scope) -> ValueType | None:
        value, tensor = scope.value(self, "value"), scope.tensor(self, "to")
        if tensor is None:
            return None
        if tensor.role != "output":
            scope.report(WriteToInput(self.where("to"), self.to))
        else:
            scope.write(self, "to")
        if value is None:
            return None
        if self.at and not check_mapping(self, tensor.shape, self.to, self.at, value.dims, scope):
            return None
        if not self.at and value.dims != tensor.shape:
            mine, theirs = ", ".join(value.dims), ", ".join(tensor.shape)
            message = f"{quote(self.value)} has the dims [{mine}]; {quote(self.to)} has [{theirs}]."
            scope.report(DimsMismatch(self.where("value"), message))
        elif value.dtype != tensor.dtype:
            message = f"{quote(self.value)} is {value.dtype}; {quote(self.to)} is {tensor.dtype}."
            scope.report(DtypeMismatch(self.where("value"), message))
        return None
