"""The reductions: one row of a table each, elements along a dim become one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from pydantic import Field

from wavespec.diagnostics import quote
from wavespec.schema.language.dim_names import DimName
from wavespec.schema.language.dtypes import is_computed, is_float
from wavespec.schema.language.names import Reference
from wavespec.schema.ops.base import Scope, ValueOp, ValueType, op_of_row
from wavespec.schema.ops.mma import DimsMismatch, DtypeMismatch
from wavespec.schema.ops.restarts import check_carries_on


@dataclass(frozen=True, slots=True)
class Reduction:
    """One reduction of the language; `wavespec/ops/reduce.py` has the meaning of each."""

    word: str
    doc: str
    function: str
    """The elementwise function that joins two elements."""
    divided: bool = False
    """Whether what is joined is divided by the size of the dim; by all of it in a loop over its tiles, too."""
    of_flags: bool = False
    """Whether it joins bool, and nothing else."""


REDUCTIONS: tuple[Reduction, ...] = (
    Reduction("sum", "The sum of all elements along a dim; small floats are summed in f32.", "add"),
    Reduction("mean", "The sum of all elements along a dim, divided by its size.", "add", divided=True),
    Reduction("prod", "The product of all elements along a dim.", "mul"),
    Reduction("max", "The largest element along a dim; NaN where one is NaN.", "maximum"),
    Reduction("min", "The smallest element along a dim; NaN where one is NaN.", "minimum"),
    Reduction("any", "Whether one element along a dim is true.", "maximum", of_flags=True),
    Reduction("all", "Whether every element along a dim is true.", "minimum", of_flags=True),
)


class Reduce(ValueOp):
    """Joins the elements along a dim; inside `iterate` over it those of one step, onto `init`, the value so far."""

    headline: ClassVar[tuple[str, ...]] = ("value",)
    reduction: ClassVar[Reduction]

    value: Reference | Annotated[tuple[Reference, ...], Field(min_length=2, max_length=16)]
    """The value whose elements are joined, or several values."""
    dim: DimName | Annotated[tuple[DimName, ...], Field(min_length=2, max_length=16)]
    """The dim that goes away, or several dims."""
    init: Reference | None = None
    """What the result starts from, of its dims; absent: nothing."""

    @property
    def values(self) -> tuple[str, ...]:
        """What is joined."""
        return (self.value,) if isinstance(self.value, str) else self.value

    @property
    def along(self) -> tuple[str, ...]:
        """The dims that go away."""
        return (self.dim,) if isinstance(self.dim, str) else self.dim

    def infer(self, scope: Scope) -> ValueType | None:
        places = [("value",)] if isinstance(self.value, str) else [("value", at) for at in range(len(self.value))]
        values = [self._value(scope, *place) for place in places]
        dims = [("dim",)] if isinstance(self.dim, str) else [("dim", at) for at in range(len(self.dim))]
        known = [scope.dim(self, *place) for place in dims]
        init = scope.value(self, "init") if self.init is not None else None
        if self.init is None:
            check_carries_on(self, scope, self.along, self.name)
        first = values[0]
        if first is None or not all(values) or not all(known):
            return None
        for place, name, value in zip(places, self.values, values, strict=True):
            if value is not None and (set(value.dims), value.dtype) != (set(first.dims), first.dtype):
                message = f"{quote(self.word)} joins values of one type; {quote(self.values[0])} is {first}, "
                message += f"{quote(name)} is {value}."
                scope.report(DimsMismatch(self.where(*place), message, about=[self.values[0], name]))
        for place, dim in zip(dims, self.along, strict=True):
            if dim not in first.dims or self.along.count(dim) > 1:
                found = f"{quote(self.values[0])} has the dims [{', '.join(first.dims)}]"
                twice = self.along.count(dim) > 1
                message = f"{quote(dim)} goes away once." if twice else f"{found}, not {quote(dim)}."
                scope.report(DimsMismatch(self.where(*place), message, about=[dim if twice else self.values[0]]))
                return None
        if self.reduction.divided and len(values) > 1:
            message = f"{quote(self.word)} takes one value."
            scope.report(DimsMismatch(self.where("value"), message, about=self.values))
        result = ValueType(tuple(other for other in first.dims if other not in self.along), first.dtype)
        if init is not None and (set(init.dims), init.dtype) != (set(result.dims), result.dtype):
            message = f"The result is {result}; {quote(str(self.init))}, which it starts from, is {init}."
            scope.report(DimsMismatch(self.where("init"), message, about=[str(self.init)]))
        return result

    def _value(self, scope: Scope, *path: str | int) -> ValueType | None:
        """The type of an operand; what is wrong with it alone is reported."""
        value = scope.value(self, *path)
        if value is None:
            return None
        name = self.values[int(path[-1]) if len(path) > 1 else 0]
        if self.reduction.of_flags and value.dtype != "bool":
            message = f"{quote(self.word)} takes bool; {quote(name)} is {value.dtype}."
            hint = f"Compare it with something: '- name: {{ne: [{name}, 0]}}'."
            scope.report(DtypeMismatch(self.where(*path), message, hints=[hint], about=[name]))
        elif not self.reduction.of_flags and not is_computed(value.dtype):
            message = f"{quote(self.word)} takes integers, and floating point of at least 16 bits; "
            message += f"{quote(name)} is {value.dtype}."
            scope.report(DtypeMismatch(self.where(*path), message, about=[name]))
        elif self.reduction.divided and not is_float(value.dtype):
            message = f"{quote(self.word)} takes floating point; {quote(name)} is {value.dtype}."
            scope.report(DtypeMismatch(self.where(*path), message, about=[name]))
        return value


def _model(reduction: Reduction) -> type[Reduce]:
    made = op_of_row(Reduce, reduction.word, reduction.doc, __name__)
    made.word, made.reduction = reduction.word, reduction
    return made


REDUCE: tuple[type[Reduce], ...] = tuple(map(_model, REDUCTIONS))
"""A model per reduction."""
