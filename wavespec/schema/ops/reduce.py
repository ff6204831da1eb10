"""The reductions: one row of a table each, elements along a dim become one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from pydantic import create_model

from wavespec.diagnostics import quote
from wavespec.schema.dtypes import is_computed, is_float
from wavespec.schema.names import Name, Reference
from wavespec.schema.ops.base import Scope, ValueOp, ValueType
from wavespec.schema.ops.mma import DimsMismatch, DtypeMismatch


@dataclass(frozen=True, slots=True)
class Reduction:
    """One reduction of the language; `wavespec/ops/reduce.py` has the meaning of each."""

    word: str
    doc: str
    function: str
    """The elementwise function that joins two elements."""
    divided: bool = False
    """Whether what is joined is divided by the size of the dim; by all of it in a loop over its tiles, too."""


REDUCTIONS: tuple[Reduction, ...] = (
    Reduction("sum", "The sum of all elements along a dim; small floats are summed in f32.", "add"),
    Reduction("mean", "The sum of all elements along a dim, divided by its size.", "add", divided=True),
    Reduction("prod", "The product of all elements along a dim.", "mul"),
    Reduction("max", "The largest element along a dim; NaN where one is NaN.", "maximum"),
    Reduction("min", "The smallest element along a dim; NaN where one is NaN.", "minimum"),
)


class Reduce(ValueOp):
    """Joins the elements along a dim; inside `iterate` over it those of one step, onto `init`, the value so far."""

    headline: ClassVar[tuple[str, ...]] = ("value",)
    reduction: ClassVar[Reduction]

    value: Reference
    """The value whose elements are joined."""
    dim: Name
    """The dim that goes away."""
    init: Reference | None = None
    """What the result starts from, of its dims; absent: nothing."""

    def infer(self, scope: Scope) -> ValueType | None:
        value, dim = scope.value(self, "value"), scope.dim(self, "dim")
        init = scope.value(self, "init") if self.init is not None else None
        if value is None or dim is None:
            return None
        if not is_computed(value.dtype):
            message = f"{quote(self.word)} takes integers, and floating point of at least 16 bits; "
            scope.report(DtypeMismatch(self.where("value"), f"{message}{quote(self.value)} is {value.dtype}."))
        if dim not in value.dims:
            message = f"{quote(self.value)} has the dims [{', '.join(value.dims)}], not {quote(dim)}."
            scope.report(DimsMismatch(self.where("dim"), message))
            return None
        if self.reduction.divided and not is_float(value.dtype):
            message = f"{quote(self.word)} takes floating point; {quote(self.value)} is {value.dtype}."
            scope.report(DtypeMismatch(self.where("value"), message))
        result = ValueType(tuple(other for other in value.dims if other != dim), value.dtype)
        if init is not None and (set(init.dims), init.dtype) != (set(result.dims), result.dtype):
            message = f"The result is {result}; {quote(str(self.init))}, which it starts from, is {init}."
            scope.report(DimsMismatch(self.where("init"), message))
        return result


def _model(reduction: Reduction) -> type[Reduce]:
    fields: dict[str, Any] = {"op": (Literal[reduction.word], reduction.word)}
    name = reduction.word.capitalize()
    made: type[Reduce] = create_model(name, __base__=Reduce, __doc__=reduction.doc, __module__=__name__, **fields)
    made.word, made.reduction = reduction.word, reduction
    return made


REDUCE: tuple[type[Reduce], ...] = tuple(map(_model, REDUCTIONS))
"""A model per reduction."""
