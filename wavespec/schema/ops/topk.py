"""`topk`: the largest elements along a dim, in order, and their places."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from wavespec.diagnostics import WavespecError, Where, quote
from wavespec.schema.language.dim_names import DimName
from wavespec.schema.language.names import Name, Reference
from wavespec.schema.ops.argmax import check_init, ranked_value
from wavespec.schema.ops.base import Scope, ValueOp, ValueType
from wavespec.schema.ops.mma import DimsMismatch
from wavespec.schema.ops.restarts import check_carries_on

LARGEST_K = 64


class TopkTooLarge(WavespecError, code="topk-too-large"):
    def __init__(self, where: Where, dim: str, size: int | None) -> None:
        found = f"{quote(dim)} has no size of its own" if size is None else f"{quote(dim)} is {size}"
        super().__init__(
            where,
            f"'topk' finds from 1 to {LARGEST_K} elements; {found}.",
            hints=[f"Give the dim one size: '{dim}: {{value: 8}}'."],
        )


class TopkOfFewer(WavespecError, code="topk-of-fewer"):
    def __init__(self, where: Where, dim: str, least: int, count: int) -> None:
        super().__init__(
            where,
            f"{quote(dim)} may have {least} elements, of which 'topk' cannot find {count}.",
            hints=[
                f"Promise '{dim}: {{min: {count}}}' in 'dims', or say with 'init' what is found where there are fewer."
            ],
        )


class Topk(ValueOp):
    """The largest elements along a dim, the largest first, NaN before all, of equal ones the first; inside `iterate`
    over the dim those of the step and of `init`."""

    word: ClassVar[str] = "topk"
    headline: ClassVar[tuple[str, ...]] = ("value",)
    further: ClassVar[tuple[str, ...]] = ("indices",)

    op: Literal["topk"] = "topk"
    value: Reference
    """The value whose elements are compared."""
    dim: DimName
    """The dim along which they lie."""
    k: DimName
    """The dim, of one size, that takes its place: how many elements are found."""
    largest: bool = True
    """Whether the largest elements are wanted; else the smallest, the smallest first."""
    indices: Name | None = None
    """The name of a second result: the places of the elements along `dim`, or those of `places`."""
    places: Annotated[Reference | None, Field(exclude_if=lambda value: value is None)] = None
    """The places of the elements where these were found before, of the dims of the value and the type of the result;
    absent: where they lie along `dim`."""
    init: tuple[Reference, Reference] | None = None
    """The elements and places found before, of the dims and types of the two results; absent: none."""
    dtype: Literal["i32", "i64"] = "i64"
    """The element type of places."""

    def infer(self, scope: Scope) -> ValueType | None:
        value, count = ranked_value(self, scope), scope.dim(self, "k")
        if value is None or count is None:
            return None
        size = scope.size(count)
        if size is None or not 1 <= size <= LARGEST_K:
            scope.report(TopkTooLarge(self.where("k"), count, size))
        elif self.init is None and (least := scope.least(self.dim)) < size:
            scope.report(TopkOfFewer(self.where("dim"), self.dim, least, size))
        if count in value.dims:
            message = (
                f"{quote(count)} is a dim of {quote(self.value)}; the result has it in place of {quote(self.dim)}."
            )
            scope.report(DimsMismatch(self.where("k"), message, about=[self.value]))
            return None
        if self.places is not None:
            self._check_places(scope, value)
        dims = tuple(count if dim == self.dim else dim for dim in value.dims)
        found, places = ValueType(dims, value.dtype), ValueType(dims, self.dtype)
        if self.init is not None:
            check_init(self, scope, self.init, (found, places))
        else:
            check_carries_on(self, scope, (self.dim,), f"[{self.name}, {self.indices or '...'}]")
        if self.indices is not None:
            scope.define(self.indices, places)
        return found

    def _check_places(self, scope: Scope, value: ValueType) -> None:
        places, own = scope.value(self, "places"), ValueType(value.dims, self.dtype)
        if places is not None and (set(places.dims), places.dtype) != (set(own.dims), own.dtype):
            message = f"The places of {quote(self.value)} are {own}; {quote(str(self.places))} is {places}."
            scope.report(DimsMismatch(self.where("places"), message, about=[self.value, str(self.places)]))
