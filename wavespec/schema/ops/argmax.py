"""The places of extremes: one row of a table each, elements along a dim become the place of one of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from wavespec.diagnostics import listing, quote
from wavespec.schema.language.dim_names import DimName
from wavespec.schema.language.dtypes import DTYPES, is_computed
from wavespec.schema.language.names import Name, Reference
from wavespec.schema.ops.base import Op, Scope, ValueOp, ValueType, op_of_row
from wavespec.schema.ops.mma import DimsMismatch, DtypeMismatch
from wavespec.schema.ops.restarts import check_carries_on

RANKED: tuple[str, ...] = tuple(name for name in DTYPES if is_computed(name) or name == "bool")
"""Element types that `argmax` and `topk` take."""


@dataclass(frozen=True, slots=True)
class ArgRow:
    """One place of an extreme; `wavespec/ops/argmax.py` has the meaning."""

    word: str
    doc: str
    largest: bool


ARG_REDUCTIONS: tuple[ArgRow, ...] = (
    ArgRow("argmax", "Where the largest element along a dim is, the first of equal ones; NaN is the largest.", True),
    ArgRow("argmin", "Where the smallest element along a dim is, the first of equal ones; NaN is the smallest.", False),
)


class ArgReduce(ValueOp):
    """Finds an element along a dim; inside `iterate` over it one of its step, or what `init` says it was before."""

    headline: ClassVar[tuple[str, ...]] = ("value",)
    further: ClassVar[tuple[str, ...]] = ("extreme",)
    row: ClassVar[ArgRow]

    value: Reference
    """The value whose elements are compared."""
    dim: DimName
    """The dim that goes away."""
    extreme: Name | None = None
    """The name of a second result: the element itself."""
    init: tuple[Reference, Reference] | None = None
    """The place and the element found before, of the dims and types of the two results; absent: none."""
    dtype: Literal["i32", "i64"] = "i64"
    """The element type of places."""

    def infer(self, scope: Scope) -> ValueType | None:
        value = ranked_value(self, scope)
        if value is None:
            return None
        dims = tuple(dim for dim in value.dims if dim != self.dim)
        place, extreme = ValueType(dims, self.dtype), ValueType(dims, value.dtype)
        if self.init is not None:
            check_init(self, scope, self.init, (place, extreme))
        else:
            check_carries_on(self, scope, (self.dim,), f"[{self.name}, {self.extreme or '...'}]")
        if self.extreme is not None:
            scope.define(self.extreme, extreme)
        return place


def ranked_value(op: Op, scope: Scope) -> ValueType | None:
    """The operand of `argmax` or `topk`, if it has the dim and a type that can be compared together with a place."""
    value, dim = scope.value(op, "value"), scope.dim(op, "dim")
    name: str = getattr(op, "value", "")
    if value is None or dim is None:
        return None
    if value.dtype not in RANKED:
        message = f"{quote(op.word)} takes {listing(RANKED, 'or')}; {quote(name)} is {value.dtype}."
        scope.report(DtypeMismatch(op.where("value"), message, about=[name]))
    if dim not in value.dims:
        message = f"{quote(name)} has the dims [{', '.join(value.dims)}], not {quote(dim)}."
        scope.report(DimsMismatch(op.where("dim"), message, about=[name]))
        return None
    return value


def check_init(op: Op, scope: Scope, names: tuple[str, str], results: tuple[ValueType, ValueType]) -> None:
    """Report what a result starts from, if that is of another type."""
    for number, (name, result) in enumerate(zip(names, results, strict=True)):
        init = scope.value(op, "init", number)
        if init is not None and (set(init.dims), init.dtype) != (set(result.dims), result.dtype):
            message = f"The result is {result}; {quote(name)}, which it starts from, is {init}."
            scope.report(DimsMismatch(op.where("init", number), message, about=[name]))


def _model(row: ArgRow) -> type[ArgReduce]:
    made = op_of_row(ArgReduce, row.word, row.doc, __name__)
    made.word, made.row = row.word, row
    return made


ARG_REDUCE: tuple[type[ArgReduce], ...] = tuple(map(_model, ARG_REDUCTIONS))
"""A model per row."""
