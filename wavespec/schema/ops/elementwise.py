"""The elementwise ops: one row of a table each, applied to every element; values are broadcast by the names of dims."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

from wavespec.diagnostics import WavespecError, Where, quote
from wavespec.schema.language.dtypes import DType, fits, is_computed, is_float, is_wider
from wavespec.schema.language.errors import NumberOutOfRange
from wavespec.schema.language.names import Reference
from wavespec.schema.ops.base import Scope, ValueOp, ValueType, op_of_row
from wavespec.schema.ops.mma import DtypeMismatch


class NoValue(WavespecError, code="no-value"):
    def __init__(self, where: Where, word: str) -> None:
        message = f"The operands of {quote(word)} are numbers; at least one is a value."
        super().__init__(where, message, hints=["Write the number that comes out of it."])


Takes = Literal["anything", "numbers", "floats", "small floats", "integers", "bits"]
"""Element types: numbers and bool; numbers; floating point; that of at most 32 bits, which is computed in f32; whole
numbers; whole numbers and bool."""


@dataclass(frozen=True, slots=True)
class Function:
    """One elementwise op of the language; `wavespec/ops/elementwise.py` has the meaning of each.

    Words are those of torch, where it has one.
    """

    word: str
    operands: int
    doc: str
    dtypes: Takes
    """Element types that it takes."""
    result: Literal["same", "bool"] = "same"
    """The element type of the result: that of the operands, or bool."""


FUNCTIONS: tuple[Function, ...] = (
    Function("add", 2, "`lhs + rhs`.", "numbers"),
    Function("sub", 2, "`lhs - rhs`.", "numbers"),
    Function("mul", 2, "`lhs * rhs`.", "numbers"),
    Function("div", 2, "`lhs / rhs`.", "floats"),
    Function("floor_divide", 2, "`lhs / rhs` rounded down; of whole numbers, where `rhs` is not 0.", "numbers"),
    Function("remainder", 2, "`lhs - rhs * floor_divide(lhs, rhs)`: it has the sign of `rhs`.", "numbers"),
    Function("fmod", 2, "What a quotient rounded towards 0 leaves of `lhs`: it has the sign of `lhs`.", "numbers"),
    Function("pow", 2, "`lhs` to the power of `rhs`.", "small floats"),
    Function("atan2", 2, "The angle of the point with `rhs` to the right and `lhs` up.", "small floats"),
    Function("hypot", 2, "`sqrt(lhs * lhs + rhs * rhs)`, where the squares are too large as well.", "small floats"),
    Function("logaddexp", 2, "`log(exp(lhs) + exp(rhs))`, where the powers are too large as well.", "small floats"),
    Function("xlogy", 2, "`lhs * log(rhs)`; 0 where `lhs` is, unless `rhs` is NaN.", "small floats"),
    Function(
        "ldexp", 2, "`lhs * 2^rhs`, where the power is too large or small as well; a `lhs` of 0 stays.", "small floats"
    ),
    Function("copysign", 2, "`lhs` with the sign of `rhs`, be that a 0 or NaN.", "floats"),
    Function("nextafter", 2, "The number of the element type that is next to `lhs`, towards `rhs`.", "floats"),
    Function("maximum", 2, "The larger of `lhs` and `rhs`; NaN where one is NaN.", "numbers"),
    Function("minimum", 2, "The smaller of `lhs` and `rhs`; NaN where one is NaN.", "numbers"),
    Function("fmax", 2, "The larger of `lhs` and `rhs`, of which NaN does not count.", "numbers"),
    Function("fmin", 2, "The smaller of `lhs` and `rhs`, of which NaN does not count.", "numbers"),
    Function("lt", 2, "Whether `lhs < rhs`.", "numbers", "bool"),
    Function("le", 2, "Whether `lhs <= rhs`.", "numbers", "bool"),
    Function("gt", 2, "Whether `lhs > rhs`.", "numbers", "bool"),
    Function("ge", 2, "Whether `lhs >= rhs`.", "numbers", "bool"),
    Function("eq", 2, "Whether `lhs` equals `rhs`.", "anything", "bool"),
    Function("ne", 2, "Whether `lhs` differs from `rhs`; also where one is NaN.", "anything", "bool"),
    Function("logical_and", 2, "Whether neither `lhs` nor `rhs` is 0.", "anything", "bool"),
    Function("logical_or", 2, "Whether `lhs` or `rhs` is not 0.", "anything", "bool"),
    Function("logical_xor", 2, "Whether just one of `lhs` and `rhs` is 0.", "anything", "bool"),
    Function("bitwise_and", 2, "The bits that `lhs` and `rhs` have.", "bits"),
    Function("bitwise_or", 2, "The bits that `lhs` or `rhs` has.", "bits"),
    Function("bitwise_xor", 2, "The bits that just one of `lhs` and `rhs` has.", "bits"),
    Function("bitwise_left_shift", 2, "`lhs * 2^rhs`, cut off to its bits.", "integers"),
    Function("bitwise_right_shift", 2, "`lhs / 2^rhs`, rounded down.", "integers"),
    Function("fma", 3, "`lhs * rhs + addend`, rounded once.", "floats"),
    Function("where", 3, "`then` where `condition` holds, else `otherwise`.", "anything"),
    Function(
        "clamp",
        3,
        "The value, or `low` where it is below, and then `high` where that is above; NaN where one is NaN.",
        "numbers",
    ),
    Function("neg", 1, "The value with its sign changed.", "numbers"),
    Function("abs", 1, "The value without its sign.", "numbers"),
    Function("sign", 1, "1, 0 or -1: the sign of the value; 0 for NaN.", "numbers"),
    Function("signbit", 1, "Whether the value has a sign, be that of a 0 or NaN.", "numbers", "bool"),
    Function("isnan", 1, "Whether the value is NaN.", "floats", "bool"),
    Function("isinf", 1, "Whether the value is infinite.", "floats", "bool"),
    Function("isfinite", 1, "Whether the value is neither infinite nor NaN.", "floats", "bool"),
    Function("logical_not", 1, "Whether the value is 0.", "anything", "bool"),
    Function("bitwise_not", 1, "The bits that the value has not.", "bits"),
    Function("popcount", 1, "How many bits the value has, its sign among them.", "integers"),
    Function("relu", 1, "0 where the value is below 0, else the value: -0 is -0.", "numbers"),
    Function("floor", 1, "The value rounded down.", "floats"),
    Function("ceil", 1, "The value rounded up.", "floats"),
    Function("trunc", 1, "The value rounded towards 0.", "floats"),
    Function("round", 1, "The value rounded to the nearest integer, halves to the even one.", "floats"),
    Function("frac", 1, "What `trunc` leaves of the value.", "floats"),
    Function("sqrt", 1, "The square root.", "floats"),
    Function("rsqrt", 1, "`1 / sqrt(x)`.", "floats"),
    Function("cbrt", 1, "The cube root.", "small floats"),
    Function("reciprocal", 1, "`1 / x`.", "floats"),
    Function("exp", 1, "e to the power of the value.", "small floats"),
    Function("exp2", 1, "2 to the power of the value.", "small floats"),
    Function("expm1", 1, "`exp(x) - 1`.", "small floats"),
    Function("log", 1, "The natural logarithm.", "small floats"),
    Function("log2", 1, "The logarithm to base 2.", "small floats"),
    Function("log10", 1, "The logarithm to base 10.", "small floats"),
    Function("log1p", 1, "`log(1 + x)`.", "small floats"),
    Function("sin", 1, "The sine.", "small floats"),
    Function("cos", 1, "The cosine.", "small floats"),
    Function("tan", 1, "The tangent.", "small floats"),
    Function("asin", 1, "The angle in -π/2 to π/2 with this sine.", "small floats"),
    Function("acos", 1, "The angle in 0 to π with this cosine.", "small floats"),
    Function("atan", 1, "The angle in -π/2 to π/2 with this tangent.", "small floats"),
    Function("sinh", 1, "The hyperbolic sine.", "small floats"),
    Function("cosh", 1, "The hyperbolic cosine.", "small floats"),
    Function("asinh", 1, "The number with this hyperbolic sine.", "small floats"),
    Function("acosh", 1, "The number, not below 0, with this hyperbolic cosine.", "small floats"),
    Function("atanh", 1, "The number with this hyperbolic tangent.", "small floats"),
    Function("erf", 1, "The error function.", "small floats"),
    Function("erfc", 1, "`1 - erf(x)`, with all digits where that is small.", "small floats"),
    Function("erfinv", 1, "The number with this error function.", "small floats"),
    Function("lgamma", 1, "The logarithm of the size of the gamma function.", "small floats"),
    Function("digamma", 1, "The slope of the logarithm of the gamma function.", "small floats"),
    Function("modified_bessel_i0", 1, "The modified Bessel function of the first kind, of order 0.", "small floats"),
    Function("tanh", 1, "The hyperbolic tangent.", "small floats"),
    Function("sigmoid", 1, "`1 / (1 + exp(-x))`.", "small floats"),
    Function("logsigmoid", 1, "`log(sigmoid(x))`.", "small floats"),
    Function("softplus", 1, "`log(1 + exp(x))`.", "small floats"),
    Function("mish", 1, "`x * tanh(softplus(x))`.", "small floats"),
    Function("silu", 1, "`x * sigmoid(x)`.", "small floats"),
    Function("gelu", 1, "`x / 2 * (1 + erf(x / sqrt(2)))`.", "small floats"),
    Function("gelu_tanh", 1, "`gelu` by its approximation with tanh.", "small floats"),
)


class Elementwise(ValueOp):
    """An op that makes each element of its result from the elements of its operands at the same place."""

    function: ClassVar[Function]
    flags: ClassVar[tuple[str, ...]] = ()
    """Operands that are bool, whatever the others are."""

    def infer(self, scope: Scope) -> ValueType | None:
        types = {field: scope.value(self, field) for field in self.headline if isinstance(getattr(self, field), str)}
        known = {field: value for field, value in types.items() if value is not None}
        typed = {field: value for field, value in known.items() if field not in self.flags}
        if not types:
            scope.report(NoValue(self.where("op"), self.word))
        refused = [field for field in known if not self._check_dtype(scope, field, known)]
        if len(known) < len(types) or not known:
            return None
        self._check_alike(scope, {field: value for field, value in typed.items() if field not in refused})
        numbers = {field: getattr(self, field) for field in self.headline if field not in types}
        dtype: DType = next(iter(typed.values())).dtype if typed else dtype_of_numbers(numbers.values())
        for field, number in numbers.items():
            if not fits(number, dtype):
                scope.report(NumberOutOfRange(self.where(field), str(number), f"the numbers of {dtype}"))
        return ValueType(
            shared_dims(value.dims for value in known.values()), "bool" if self.function.result == "bool" else dtype
        )

    def _check_alike(self, scope: Scope, typed: Mapping[str, ValueType]) -> None:
        """Operands that are values have one element type."""
        first = next(iter(typed), "")
        for field, other in typed.items():
            value = typed[first]
            if other.dtype == value.dtype:
                continue
            found = f"{quote(self._written(first))} is {value.dtype} and {quote(self._written(field))} is {other.dtype}"
            message = f"{quote(self.word)} takes operands of one dtype; {found}."
            # The other way round numbers would be cut.
            narrow, dtype = (first, other.dtype) if is_wider(other.dtype, value.dtype) else (field, value.dtype)
            converted = self._converted(narrow, dtype)
            hints = [f"Convert one of them first: '{converted}'."]
            about = [self._written(first), self._written(field)]
            scope.report(DtypeMismatch(self.where(field), message, hints=hints, about=about))

    def _written(self, field: str) -> str:
        """An operand by its name; a call in a formula, whose value has no name that anybody knows, by its text."""
        text = self._text(field)
        return text if re.fullmatch(r"[a-z]\w*\(.*\)", text) else str(getattr(self, field))

    def _text(self, field: str) -> str:
        """What the file has for a field, where that is in one line."""
        span = self.span_of(field)
        if span is None or span.source is None or span.line != span.end_line:
            return ""
        return span.source.lines[span.line - 1][span.column - 1 : span.end_column - 1]

    def _converted(self, field: str, dtype: DType) -> str:
        """How a spec has an operand in another element type: beside it in an expression, else by a statement."""
        written = self._written(field)
        is_statement = written == getattr(self, field) and self._text("op") in ("", self.word)
        return f"- name: {{cast: {written}, dtype: {dtype}}}" if is_statement else f"{dtype}({written})"

    def _check_dtype(self, scope: Scope, field: str, known: Mapping[str, ValueType]) -> bool:
        """Whether the op takes the type of an operand."""
        dtype = known[field].dtype
        if field in self.flags:
            if dtype != "bool":
                message = f"The {field} of {quote(self.word)} is bool; {quote(getattr(self, field))} is {dtype}."
                hints = [f"Compare it with something: '- name: {{ne: [{getattr(self, field)}, 0]}}'."]
                scope.report(DtypeMismatch(self.where(field), message, hints=hints, about=[getattr(self, field)]))
            return dtype == "bool"
        if what := _refusal(self.function.dtypes, dtype):
            message = f"{quote(self.word)} {what}; {quote(self._written(field))} is {dtype}."
            taken: list[DType] = [one.dtype for one in known.values() if not _refusal(self.function.dtypes, one.dtype)]
            converted = self._converted(field, taken[0] if taken else "f32")
            is_whole = what == "takes floating point" and dtype != "bool"
            hints = [f"Convert it first: '{converted}'."] if is_whole else []
            scope.report(DtypeMismatch(self.where(field), message, hints=hints, about=[getattr(self, field)]))
        return not what


def shared_dims(operands: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    """The dims of an elementwise result: those of the operand with the most, then what others have beside them.

    Operands are repeated along the dims that they lack.
    """
    first, *others = sorted(operands, key=len, reverse=True)
    return tuple(dict.fromkeys((*first, *(dim for dims in others for dim in dims))))


def dtype_of_numbers(numbers: Iterable[int | float]) -> DType:
    """The element type of numbers alone: f32 where one of them has a point or is infinite, else i32."""
    return "f32" if any(isinstance(number, float) for number in numbers) else "i32"


def _refusal(takes: Takes, dtype: DType) -> str:
    """What is wrong with an operand of ``dtype``; empty for nothing."""
    if is_float(dtype) and takes in ("integers", "bits"):
        return "takes integers" if takes == "integers" else "takes integers and bool"
    if is_float(dtype) and not is_computed(dtype):
        return "takes no floats of 8 bits or less"
    if not is_computed(dtype) and dtype != "bool":
        return "takes integers of 8 bits or more"
    if dtype == "bool" and takes not in ("anything", "bits"):
        return {"numbers": "takes numbers", "integers": "takes integers"}.get(takes, "takes floating point")
    if not is_float(dtype) and takes in ("floats", "small floats"):
        return "takes floating point"
    return "is computed in f32" if dtype == "f64" and takes == "small floats" else ""


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


class Ternary(Elementwise):
    """An elementwise op of three values, or of values and numbers."""

    headline: ClassVar[tuple[str, ...]] = ("lhs", "rhs", "addend")

    lhs: Reference | int | float
    """The first operand: a value, or a number that counts for every element."""
    rhs: Reference | int | float
    """The second one."""
    addend: Reference | int | float
    """What is added to their product."""


class Range(Elementwise):
    """An elementwise op that keeps a value between two others."""

    headline: ClassVar[tuple[str, ...]] = ("operand", "low", "high")

    operand: Reference | int | float
    """The value, or a number that counts for every element."""
    low: Reference | int | float
    """What the result is at least: a value or a number."""
    high: Reference | int | float
    """What the result is at most: a value or a number."""


class Choice(Elementwise):
    """An elementwise op that chooses between values, or a value and a number."""

    headline: ClassVar[tuple[str, ...]] = ("condition", "then", "otherwise")
    flags: ClassVar[tuple[str, ...]] = ("condition",)

    condition: Reference
    """A bool."""
    then: Reference | int | float
    """The result where the condition holds: a value or a number."""
    otherwise: Reference | int | float
    """The result elsewhere."""


_BY_OPERANDS: dict[int, type[Elementwise]] = {1: Unary, 2: Binary, 3: Ternary}
_BY_WORD: dict[str, type[Elementwise]] = {"where": Choice, "clamp": Range}


def _model(function: Function) -> type[Elementwise]:
    base = _BY_WORD.get(function.word) or _BY_OPERANDS[function.operands]
    made = op_of_row(base, function.word, function.doc, __name__)
    made.word, made.function = function.word, function
    return made


ELEMENTWISE: tuple[type[Elementwise], ...] = tuple(map(_model, FUNCTIONS))
"""A model per function."""
