"""`take`: elements of a value at other places."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from wavespec.schema.language.dim_names import DimName
from wavespec.schema.language.names import Reference
from wavespec.schema.ops.base import Scope, ValueOp, ValueType
from wavespec.schema.ops.mapping import IndexMap, check_mapping
from wavespec.schema.ops.read import named_dims


class Take(ValueOp):
    """Elements of a value at other places: slices, shuffles, reshapes, turns and look-ups of what was computed.

    An index mapping, `at`, says which element of the value each element of the result is. A workgroup has all of a dim
    that is named there, as in a reduction.
    """

    word: ClassVar[str] = "take"
    headline: ClassVar[tuple[str, ...]] = ("value",)

    op: Literal["take"] = "take"
    value: Reference
    """The value whose elements are taken."""
    dims: Annotated[tuple[DimName, ...], Field(max_length=16)] | None = None
    """The dims of the result, in order; absent: those of the value."""
    at: IndexMap = Field(default_factory=dict)
    """Dim of the value: index of the element, written as in `read`, with the dims of the result. A dim that is left out
    has the index along the same dim of the result. What lies outside of the value is 0."""

    def infer(self, scope: Scope) -> ValueType | None:
        value = scope.value(self, "value")
        dims = value.dims if value and self.dims is None else named_dims(self, self.dims or (), scope)
        if value is None or dims is None or not check_mapping(self, value.dims, self.value, self.at, dims, scope):
            return None
        return ValueType(dims, value.dtype)
