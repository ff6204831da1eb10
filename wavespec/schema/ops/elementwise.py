"""The elementwise ops: one row of a table each, applied to every element; values are broadcast by the names of dims."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from pydantic import create_model

from wavespec.diagnostics import WavespecError, Where, quote
from wavespec.schema.dtypes import DType, fits, is_computed, is_float
from wavespec.schema.names import Reference
from wavespec.schema.ops.base import Scope, ValueOp, ValueType
from wavespec.schema.ops.mma import DimsMismatch, DtypeMismatch
from wavespec.schema.yaml_source import NumberOutOfRange


class NoValue(WavespecError, code="no-value"):
    def __init__(self, where: Where, word: str) -> None:
        message = f"Both operands of {quote(word)} are numbers; at least one is a value."
        super().__init__(where, message, hints=["Write the number that comes out of it."])


@dataclass(frozen=True, slots=True)
class Function:
    """One elementwise op of the language; `wavespec/ops/elementwise.py` has the meaning of each."""

    word: str
    operands: int
    doc: str
    dtypes: Literal["numbers", "floats", "small floats"]
    """Element types that it takes; small ones have at most 32 bits and are computed in f32."""


FUNCTIONS: tuple[Function, ...] = (
    Function("add", 2, "`lhs + rhs`.", "numbers"),
    Function("sub", 2, "`lhs - rhs`.", "numbers"),
    Function("mul", 2, "`lhs * rhs`.", "numbers"),
    Function("div", 2, "`lhs / rhs`.", "floats"),
    Function("maximum", 2, "The larger of `lhs` and `rhs`; NaN where one is NaN.", "numbers"),
    Function("minimum", 2, "The smaller of `lhs` and `rhs`; NaN where one is NaN.", "numbers"),
    Function("neg", 1, "The value with its sign changed.", "numbers"),
    Function("relu", 1, "The value where it is positive, else 0.", "numbers"),
    Function("exp", 1, "e to the power of the value.", "small floats"),
    Function("exp2", 1, "2 to the power of the value.", "small floats"),
    Function("erf", 1, "The error function.", "small floats"),
    Function("tanh", 1, "The hyperbolic tangent.", "small floats"),
    Function("sigmoid", 1, "`1 / (1 + exp(-x))`.", "small floats"),
    Function("silu", 1, "`x * sigmoid(x)`.", "small floats"),
    Function("gelu", 1, "`x / 2 * (1 + erf(x / sqrt(2)))`.", "small floats"),
    Function("gelu_tanh", 1, "`gelu` by its approximation with tanh.", "small floats"),
)


class Elementwise(ValueOp):
    """An op that makes each element of its result from the elements of its operands at the same place."""

    function: ClassVar[Function]

    def infer(self, scope: Scope) -> ValueType | None:
        types = {field: scope.value(self, field) for field in self.headline if isinstance(getattr(self, field), str)}
        known = {field: value for field, value in types.items() if value is not None}
        if not types:
            scope.report(NoValue(self.where("op"), self.word))
        for field, value in known.items():
            self._check_dtype(scope, field, value.dtype)
        if len(known) < len(types) or not known:
            return None
        (first, value), *others = known.items()
        for field, other in others:
            if other.dtype != value.dtype:
                found = (
                    f"{quote(getattr(self, first))} is {value.dtype} and {quote(getattr(self, field))} is {other.dtype}"
                )
                message = f"{quote(self.word)} takes operands of one dtype; {found}."
                hints = [
                    f"Convert one of them first: '- name: {{cast: {getattr(self, field)}, dtype: {value.dtype}}}'."
                ]
                scope.report(DtypeMismatch(self.where(field), message, hints=hints))
        for field in self.headline:
            number = getattr(self, field)
            if field not in types and not fits(number, value.dtype):
                scope.report(NumberOutOfRange(self.where(field), str(number), f"the numbers of {value.dtype}"))
        return ValueType(self._dims(scope, known), value.dtype)

    def _check_dtype(self, scope: Scope, field: str, dtype: DType) -> None:
        allowed = self.function.dtypes
        if not is_computed(dtype) or (allowed != "numbers" and not is_float(dtype)):
            wanted = "numbers" if allowed == "numbers" else "floating point"
            what = f"takes {wanted}" if dtype in ("bool", "i8", "i16", "i32", "i64", "u8") else "takes no 8-bit floats"
        elif dtype == "f64" and allowed == "small floats":
            what = "is computed in f32"
        else:
            return
        scope.report(
            DtypeMismatch(self.where(field), f"{quote(self.word)} {what}; {quote(getattr(self, field))} is {dtype}.")
        )

    def _dims(self, scope: Scope, known: Mapping[str, ValueType]) -> tuple[str, ...]:
        """Those of the operand with the most; the others are repeated along what they lack."""
        widest = max(known, key=lambda field: len(known[field].dims))
        dims = known[widest].dims
        for field, value in known.items():
            if extra := [dim for dim in value.dims if dim not in dims]:
                mine, theirs = (quote(getattr(self, name)) for name in (field, widest))
                message = f"{mine} has the dim {quote(extra[0])}, which {theirs} lacks; one operand has all dims."
                notes = [f"{mine} is {value}", f"{theirs} is {known[widest]}"]
                scope.report(DimsMismatch(self.where(field), message, notes=notes))
                break
        return dims


class Unary(Elementwise):
    """An elementwise op of one value."""

    headline: ClassVar[tuple[str, ...]] = ("operand",)

    operand: Reference
    """The value."""


class Binary(Elementwise):
    """An elementwise op of two values, or of a value and a number."""

    headline: ClassVar[tuple[str, ...]] = ("lhs", "rhs")

    lhs: Reference | int | float
    """The left operand: a value, or a number that counts for every element."""
    rhs: Reference | int | float
    """The right operand: a value with the dims of the other, or some of them; or a number."""


def _model(function: Function) -> type[Elementwise]:
    name = "".join(part.capitalize() for part in function.word.split("_"))
    base: type[Elementwise] = Unary if function.operands == 1 else Binary
    fields: dict[str, Any] = {"op": (Literal[function.word], function.word)}
    made: type[Elementwise] = create_model(name, __base__=base, __doc__=function.doc, __module__=__name__, **fields)
    made.word, made.function = function.word, function
    return made


ELEMENTWISE: tuple[type[Elementwise], ...] = tuple(map(_model, FUNCTIONS))
"""A model per function."""
