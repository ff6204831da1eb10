"""`random`: numbers that look random, the same ones for the same seed."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from wavespec.diagnostics import quote
from wavespec.schema.language.dim_names import DimName
from wavespec.schema.language.dtypes import fits
from wavespec.schema.language.errors import NumberOutOfRange
from wavespec.schema.language.names import Reference
from wavespec.schema.ops.base import Scope, ValueOp, ValueType
from wavespec.schema.ops.mma import DimsMismatch, DtypeMismatch


class Random(ValueOp):
    """Independent random numbers, the same for the same seed and sizes on every target and however work is split.

    Philox4x32-10: the counter is the place of a group of four along the last dim, the key is the seed.
    """

    word: ClassVar[str] = "random"
    headline: ClassVar[tuple[str, ...]] = ("seed",)

    op: Literal["random"] = "random"
    seed: Reference | int
    """The seed: a value without dims, i64 or i32, or a number of 64 bits."""
    dims: Annotated[tuple[DimName, ...], Field(min_length=1, max_length=16)]
    """The dims of the result, in the order in which the numbers run; groups of four are along the last one."""
    dtype: Literal["f32", "i32"] = "f32"
    """`f32`: uniform in [0, 1), multiples of 2^-24. `i32`: 32 random bits."""

    def infer(self, scope: Scope) -> ValueType | None:
        found = [scope.dim(self, "dims", index) for index in range(len(self.dims))]
        for index, dim in enumerate(self.dims):
            if dim in self.dims[:index]:
                message = f"{quote(dim)} is twice in the dims."
                scope.report(DimsMismatch(self.where("dims", index), message, about=[dim]))
        if not isinstance(self.seed, str):
            if not fits(self.seed, "i64"):
                scope.report(NumberOutOfRange(self.where("seed"), str(self.seed), "the numbers of i64"))
        elif seed := scope.value(self, "seed"):
            if seed.dims:
                message = f"A seed is one number; {quote(self.seed)} has the dims [{', '.join(seed.dims)}]."
                scope.report(DimsMismatch(self.where("seed"), message, about=[self.seed]))
            if seed.dtype not in ("i64", "i32"):
                message = f"A seed is i64 or i32; {quote(self.seed)} is {seed.dtype}."
                scope.report(DtypeMismatch(self.where("seed"), message, about=[self.seed]))
        return ValueType(self.dims, self.dtype) if all(found) else None
