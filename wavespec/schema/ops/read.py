"""`read`: a whole tensor as a value."""

from __future__ import annotations

from typing import ClassVar, Literal

from wavespec.diagnostics import WavespecError, Where, quote
from wavespec.schema.names import Name
from wavespec.schema.ops.base import Scope, ValueOp, ValueType


class ReadOfOutput(WavespecError, code="read-of-output"):
    def __init__(self, where: Where, tensor: str) -> None:
        super().__init__(where, f"{quote(tensor)} is an output; it holds nothing that could be read.")


class Read(ValueOp):
    """Reads a tensor; inside `iterate`, the tile of the current step."""

    word: ClassVar[str] = "read"
    headline: ClassVar[tuple[str, ...]] = ("tensor",)

    op: Literal["read"] = "read"
    tensor: Name
    """The tensor to read."""

    def infer(self, scope: Scope) -> ValueType | None:
        tensor = scope.tensor(self, "tensor")
        if tensor is None:
            return None
        if tensor.role == "output":
            scope.report(ReadOfOutput(self.where("tensor"), self.tensor))
            return None
        return ValueType(tensor.shape, tensor.dtype)
