"""The model of what an input is meant to hold, which no code depends on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema

from wavespec.schema.language.base import SpecModel
from wavespec.schema.language.dim_names import DimName
from wavespec.schema.language.expression_parser import SpecExpression
from wavespec.schema.language.expressions import LONGEST_EXPRESSION, Expression, Name, Num, Unary

Number = int | float


def _number_to_expression(data: object) -> object:
    return Num(data) if isinstance(data, float) else data


_BOUND_SCHEMA = {"anyOf": [{"type": "number"}, {"type": "string", "minLength": 1, "maxLength": LONGEST_EXPRESSION}]}
BoundExpression = Annotated[SpecExpression, BeforeValidator(_number_to_expression), WithJsonSchema({**_BOUND_SCHEMA})]
"""A number, or an expression of dims, parameters and scalars."""
_Bound = Annotated[BoundExpression | None, Field(exclude_if=lambda value: value is None)]


class Values(SpecModel):
    """What an input is meant to hold. `run`, `bench` and `tune` draw inputs by it, `run` says which element of a file
    is something else, docstrings tell it. No code depends on it, and no call checks it."""

    min: _Bound = None
    """The smallest number that may be there: a number, or an expression of dims, parameters and whole scalars; or one
    scalar alone. As every bound it is rounded to the type of the tensor."""
    max: _Bound = None
    """The largest number that may be there: `max: V - 1` for places along V."""
    order: Literal["sorted", "permutation", "distinct"] | None = None
    """`sorted`: along a dim no number is less than the one before it; what is drawn reaches from `min` to `max`.
    `permutation`: along a dim there are its places, 0 to its size - 1, once each. `distinct`: along a dim no number is
    there twice, so that the largest one, or an order of all, is at one place alone."""
    along: DimName | None = None
    """The dim of `order`; absent: the last one."""
    positive_definite: tuple[DimName, DimName] | None = None
    """Two dims of one size, over which the tensor has symmetric matrices whose eigenvalues are all larger than 0."""


def plain_number(expression: Expression) -> Number | None:
    """The number that an expression is; None for one that names or computes something."""
    match expression:
        case Num(value=value):
            return value
        case Unary(operand=Num(value=value)):
            return -value
        case _:
            return None


def bound_value(expression: Expression, values: Mapping[str, Number]) -> Number:
    """What a bound is for a call, of whose sizes, parameters and scalars `values` has the numbers.

    Raises:
        EvaluationError: it has no value.
    """
    number = plain_number(expression)
    if number is not None:
        return number
    if isinstance(expression, Name) and expression.name in values:
        return values[expression.name]
    return expression.evaluate({name: value for name, value in values.items() if isinstance(value, int)})


def in_words(values: Values, shape: tuple[str, ...]) -> str:
    """What a tensor of the dims `shape` holds: `numbers from 0 to V - 1, sorted along B`."""
    if values.positive_definite is not None:
        rows, columns = values.positive_definite
        return f"symmetric positive definite over {rows} and {columns}"
    along = values.along or (shape[-1] if shape else "")
    if values.order == "permutation":
        return f"a permutation of the places along {along}"
    if values.min is not None and values.max is not None:
        limits = f"numbers from {values.min} to {values.max}"
    elif values.min is not None:
        limits = f"numbers of at least {values.min}"
    elif values.max is not None:
        limits = f"numbers of at most {values.max}"
    else:
        limits = "numbers"
    return f"{limits}, {values.order} along {along}" if values.order else limits
