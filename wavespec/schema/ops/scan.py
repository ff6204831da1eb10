"""The scans: one row of a table each, every element along a dim becomes what is joined up to it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from wavespec.diagnostics import quote
from wavespec.schema.language.dim_names import DimName
from wavespec.schema.language.dtypes import is_computed
from wavespec.schema.language.names import Reference
from wavespec.schema.ops.base import Scope, ValueOp, ValueType, op_of_row
from wavespec.schema.ops.mma import DimsMismatch, DtypeMismatch
from wavespec.schema.ops.restarts import NotWalkedBackwards, RestartsEachStep


@dataclass(frozen=True, slots=True)
class ScanRow:
    """One scan of the language; `wavespec/ops/scan.py` has the meaning of each."""

    word: str
    doc: str
    function: str
    """The elementwise function that joins two elements."""


SCANS: tuple[ScanRow, ...] = (
    ScanRow(
        "cumsum",
        "Each element along a dim and all before it, summed: small floats in f32, on CPUs f32 in f64.",
        "add",
    ),
    ScanRow("cumprod", "The product of each element along a dim and all before it.", "mul"),
    ScanRow("cummax", "The largest of each element along a dim and all before it; NaN behind a NaN.", "maximum"),
    ScanRow("cummin", "The smallest of each element along a dim and all before it; NaN behind a NaN.", "minimum"),
)


class Scan(ValueOp):
    """Joins each element along a dim with all before it; inside `iterate` over it with those of its step, and `init`.

    What the next step starts from is the reduction beside it: `total: {sum: x, dim: N, init: total}`.
    """

    headline: ClassVar[tuple[str, ...]] = ("value",)
    scan: ClassVar[ScanRow]

    value: Reference
    """The value whose elements are joined."""
    dim: DimName
    """The dim along which they follow each other."""
    init: Reference | None = None
    """What comes before the first element, of the other dims; absent: nothing."""
    reverse: bool = False
    """Whether the last element comes first: each is joined with all behind it."""

    def infer(self, scope: Scope) -> ValueType | None:
        value, dim = scope.value(self, "value"), scope.dim(self, "dim")
        init = scope.value(self, "init") if self.init is not None else None
        if dim is not None and self.reverse and scope.is_walked(dim):
            scope.report(NotWalkedBackwards(self.where("reverse"), dim))
        elif dim is not None and self.init is None and scope.is_walked(dim):
            total = f"- before: {{{self.word.removeprefix('cum')}: {self.value}, dim: {dim}, init: before}}"
            hint = f"Write 'init: before', carry 'before', and add '{total}' to the body."
            scope.report(RestartsEachStep(self.where_key("name"), self.word, dim, hint))
        if value is None or dim is None:
            return None
        if not is_computed(value.dtype):
            message = f"{quote(self.word)} takes integers, and floating point of at least 16 bits; "
            message += f"{quote(self.value)} is {value.dtype}."
            scope.report(DtypeMismatch(self.where("value"), message, about=[self.value]))
        if dim not in value.dims:
            message = f"{quote(self.value)} has the dims [{', '.join(value.dims)}], not {quote(dim)}."
            scope.report(DimsMismatch(self.where("dim"), message, about=[self.value]))
            return None
        start = ValueType(tuple(other for other in value.dims if other != dim), value.dtype)
        if init is not None and (set(init.dims), init.dtype) != (set(start.dims), start.dtype):
            message = f"It starts from a {start}; {quote(str(self.init))} is {init}."
            scope.report(DimsMismatch(self.where("init"), message, about=[str(self.init)]))
        return value


def _model(row: ScanRow) -> type[Scan]:
    made = op_of_row(Scan, row.word, row.doc, __name__)
    made.word, made.scan = row.word, row
    return made


SCAN: tuple[type[Scan], ...] = tuple(map(_model, SCANS))
"""A model per scan."""
