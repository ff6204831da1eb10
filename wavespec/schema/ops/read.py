"""`read`: a whole tensor as a value."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from wavespec.diagnostics import WavespecError, Where, quote
from wavespec.schema.language.dim_names import DimName
from wavespec.schema.language.names import Name
from wavespec.schema.ops.base import Op, Scope, ValueOp, ValueType
from wavespec.schema.ops.mapping import IndexMap, check_mapping

Cache = Literal["streaming"]
"""How caches take what is accessed; absent: as the machine does by itself."""


class ReadOfOutput(WavespecError, code="read-of-output"):
    def __init__(self, where: Where, tensor: str) -> None:
        super().__init__(where, f"{quote(tensor)} is an output; it holds nothing that could be read.")


class RepeatedDimOfTile(WavespecError, code="repeated-dim"):
    def __init__(self, where: Where, dim: str) -> None:
        super().__init__(where, f"{quote(dim)} is twice in one value.")


class Read(ValueOp):
    """Reads a tensor; inside `iterate`, the tile of the current step.

    An index mapping, `at`, says which element of the tensor each element of the value is.
    """

    word: ClassVar[str] = "read"
    headline: ClassVar[tuple[str, ...]] = ("tensor",)

    op: Literal["read"] = "read"
    tensor: Name
    """The tensor to read."""
    dims: Annotated[tuple[DimName, ...], Field(max_length=16)] | None = None
    """The dims of the value, in order; absent: those of the tensor."""
    at: IndexMap = Field(default_factory=dict)
    """Dim of the tensor: index of the element, an integer expression in which a dim of the value stands for the index
    along it, `size(DIM)` for a size, and a value of integers for an index that is known at run time. A dim that is left
    out has the index along the same dim of the value. What lies outside the tensor is read as 0."""

    cache: Annotated[Cache | None, Field(exclude_if=lambda value: value is None)] = None
    """`streaming`: what is read is not read again soon, and need not stay in caches; it changes no result."""

    def infer(self, scope: Scope) -> ValueType | None:
        tensor = scope.tensor(self, "tensor")
        if tensor is None:
            return None
        if tensor.role == "output":
            scope.report(ReadOfOutput(self.where("tensor"), self.tensor))
            return None
        dims = tensor.shape if self.dims is None else named_dims(self, self.dims, scope)
        if dims is None or not check_mapping(self, tensor.shape, self.tensor, self.at, dims, scope):
            return None
        return ValueType(dims, tensor.dtype)


def named_dims(op: Op, dims: tuple[str, ...], scope: Scope, field: str = "dims") -> tuple[str, ...] | None:
    """The field of an op that lists dims, where every one is a dim and there once; what is wrong is reported."""
    known = [scope.dim(op, field, index) for index in range(len(dims))]
    for index, dim in enumerate(dims):
        if dim in dims[:index]:
            scope.report(RepeatedDimOfTile(op.where(field, index), dim))
    return dims if None not in known and len({*dims}) == len(dims) else None
