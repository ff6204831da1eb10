"""The model of a scalar: a Python number that a call passes beside its tensors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, get_args

from pydantic import BeforeValidator, Field, WithJsonSchema

from wavespec.diagnostics import Span, WavespecError
from wavespec.schema.language.base import SpecModel
from wavespec.schema.language.dtypes import fits
from wavespec.schema.language.expression_parser import parse_expression
from wavespec.schema.language.expressions import LONGEST_EXPRESSION, Binary, Call, Expression, Name, Num, Unary

ScalarDType = Literal["f64", "f32", "bf16", "f16", "i64", "i32", "bool"]
SCALAR_DTYPES: tuple[str, ...] = get_args(ScalarDType)

Number = bool | int | float

DEFAULT_FUNCTIONS: Mapping[str, tuple[int, int]] = {
    **dict.fromkeys(("min", "max"), (2, 16)),
    **dict.fromkeys(("sqrt", "exp", "exp2", "log", "log2"), (1, 1)),
}
"""Functions of the expressions of defaults, with the fewest and the most arguments."""


def parse_default(text: str, span: Span | None = None) -> Expression:
    """Parse the expression of a default, found at `span` of a file.

    Raises:
        WavespecError: malformed, too large, or with a function outside `DEFAULT_FUNCTIONS`.
    """
    return parse_expression(text, span, DEFAULT_FUNCTIONS)


def _text_to_expression(data: object) -> object:
    try:
        return parse_default(data) if isinstance(data, str) else data
    except WavespecError as error:
        raise ValueError(str(error)) from None


_DEFAULT_SCHEMA = {
    "anyOf": [
        *({"type": kind} for kind in ("boolean", "integer", "number")),
        {"type": "string", "minLength": 1, "maxLength": LONGEST_EXPRESSION},
    ]
}
Default = Annotated[Number | Expression, BeforeValidator(_text_to_expression), WithJsonSchema(_DEFAULT_SCHEMA)]
"""A number, or an expression of the sizes of a call."""


class Scalar(SpecModel):
    """A Python number that a call passes by its name: part of the operator's schema, no tensor, no synchronisation."""

    dtype: ScalarDType
    """The element type of its value in the graph, to which a call rounds numbers of floating point."""
    default: Default | None = None
    """What it is where a call does not say: a number, or of floating point an expression of dims, `1 / sqrt(D)`,
    computed at the call; absent: every call has to."""
    min: int | float | None = None
    """The smallest number, checked at the call. The compiler relies on limits."""
    max: int | float | None = None
    """The largest number; NaN is in no limits."""
    doc: Annotated[str, Field(max_length=1_000)] = ""
    """What it is for, in the docstring of the function."""

    @property
    def number(self) -> Number | None:
        """The default, where it is the same for all sizes."""
        return None if isinstance(self.default, Expression) else self.default

    @property
    def computed(self) -> tuple[Any, ...] | str | Number | None:
        """The default, where it follows from sizes, as the nested tuples that the runtime evaluates."""
        return _expression_to_tuples(self.default) if isinstance(self.default, Expression) else None

    @property
    def is_float(self) -> bool:
        return self.dtype not in ("i64", "i32", "bool")

    @property
    def limits(self) -> tuple[int, int]:
        """The smallest and the largest number of an integer, or of a bool, which counts as 0 and 1."""
        bits = {"bool": 1, "i32": 31, "i64": 63}[self.dtype]
        smallest, largest = 0 if self.dtype == "bool" else -(2**bits), 2**bits - 1
        return (
            smallest if self.min is None else max(int(self.min), smallest),
            largest if self.max is None else min(int(self.max), largest),
        )


def _expression_to_tuples(expression: Expression) -> tuple[Any, ...] | str | Number:
    match expression:
        case Num(value=value):
            return value
        case Name(name=name):
            return name
        case Unary(op=op, operand=operand):
            return (op, _expression_to_tuples(operand))
        case Binary(op=op, left=left, right=right):
            return (op, _expression_to_tuples(left), _expression_to_tuples(right))
        case Call(function=function, arguments=arguments):
            return (function, *map(_expression_to_tuples, arguments))
        case _:
            raise AssertionError(f"{expression} is no number")


def number_problem(scalar: Scalar, number: Number) -> str | None:
    """Why `number` is no default of a scalar, as the end of a sentence; `None` where it is one."""
    if scalar.dtype == "bool" or isinstance(number, bool):
        of_bool = scalar.dtype == "bool" and isinstance(number, bool)
        return None if of_bool else f"which is no number of {scalar.dtype}"
    if not scalar.is_float and not isinstance(number, int):
        return f"which is no number of {scalar.dtype}"
    if not abs(number) < float("inf"):
        return "which is not finite"
    if not fits(number, scalar.dtype):
        return f"beyond the numbers of {scalar.dtype}"
    if scalar.min is not None and number < scalar.min:
        return f"less than its smallest number {scalar.min}"
    if scalar.max is not None and number > scalar.max:
        return f"more than its largest number {scalar.max}"
    return None
