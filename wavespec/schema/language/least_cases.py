"""Neighbouring cases that say what they take go in; of each the condition that none of the others takes less comes out.

    e[i] <= min(e'[i + 1], min(e'[i + 2], ...)),    e' = e, or far more where the conditions of that case do not hold

One comparison a case, whose right sides are parts of each other: a call computes each of them once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby, pairwise
from typing import NamedTuple

from wavespec.schema.language.expressions import (
    Binary,
    Call,
    Compare,
    EvaluationError,
    Expression,
    Name,
    Num,
    Unary,
)
from wavespec.schema.language.models import Case

MOST_COMPARED = 32
"""Neighbours of one choice: expressions of a call nest, one level for each."""
_FAR = 2**61
"""More than any case takes, and with that still a number of 64 bits."""


class Contestant(NamedTuple):
    """A case with `least`, and the numbers that its parameters have there."""

    case: Case
    values: Mapping[str, int]


def runs(cases: Sequence[Case]) -> tuple[int | None, ...]:
    """Of each case the number of the choice that it is one of: neighbours with `least`, for the same machines."""
    starts = [True, *(_choice(one) != _choice(other) for one, other in pairwise(cases))]
    numbers = [sum(starts[: index + 1]) for index in range(len(cases))]
    return tuple(number if case.least is not None else None for case, number in zip(cases, numbers, strict=True))


def choices(cases: Sequence[Case]) -> Iterator[tuple[Case, ...]]:
    """The cases that are compared with each other, choice by choice."""
    for _, run in groupby(zip(runs(cases), cases, strict=True), lambda one: one[0]):
        members = tuple(case for number, case in run if number is not None)
        if members:
            yield members


def comparisons(run: Sequence[Contestant]) -> tuple[Compare | None, ...]:
    """Of each case the condition, beside its own, that it is the first of those that take least; none for the last.

    Args:
        run: the cases of one choice that the kernel has.
    """
    conditions = [[with_values(one, case.values) for one in case.case.when] for case in run]
    common = set[str].intersection(*({str(one) for one in own} for own in conditions)) if run else set[str]()
    takes = [with_values(case.case.least, case.values) for case in run if case.case.least is not None]
    made: list[Compare | None] = [None] * len(run)
    rest: Expression | None = None
    for index in reversed(range(len(run))):
        if rest is not None:
            made[index] = Compare("<=", takes[index], rest)
        missing = [_shortfall(one) for one in conditions[index] if str(one) not in common]
        here = takes[index]
        if missing:
            total = missing[0]
            for one in missing[1:]:
                total = Binary("+", total, one)
            here = Binary("+", here, Binary("*", Call("min", (Num(1), total)), Num(_FAR)))
        rest = here if rest is None else Call("min", (here, rest))
    return tuple(made)


def with_values(expression: Expression, values: Mapping[str, int]) -> Expression:
    """The same with numbers in place of the names in ``values``; what has a number then, and what is added or
    multiplied for nothing, is worked out."""
    match expression:
        case Name(name=name):
            return Num(values[name]) if name in values else expression
        case Unary(op=op, operand=operand):
            made: Expression = Unary(op, with_values(operand, values))
        case Binary(op=op, left=left, right=right):
            made = _without_units(Binary(op, with_values(left, values), with_values(right, values)))
        case Compare(op=op, left=left, right=right):
            return Compare(op, with_values(left, values), with_values(right, values))
        case Call(function=function, arguments=arguments):
            made = Call(function, tuple(with_values(one, values) for one in arguments))
        case _:
            return expression
    if isinstance(made, Num) or made.names():
        return made
    try:
        return Num(made.evaluate({}))
    except EvaluationError:  # a call finds no number either
        return made


def _without_units(made: Binary) -> Expression:
    match made:
        case Binary(op="*", left=Num(value=0)) | Binary(op="*", right=Num(value=0)):
            return Num(0)
        case Binary(op="*", left=Num(value=1), right=rest) | Binary(op="+", left=Num(value=0), right=rest):
            return rest
        case (
            Binary(op="*" | "/" | "//", left=rest, right=Num(value=1))
            | Binary(op="+" | "-", left=rest, right=Num(value=0))
        ):
            return rest
        case _:
            return made


def _choice(case: Case) -> tuple[str, ...] | None:
    return None if case.least is None else case.variants


def _shortfall(condition: Expression) -> Expression:
    """A number that is 0 where a condition holds, and more where it does not."""
    assert isinstance(condition, Compare), condition
    left, right = condition.left, condition.right
    if condition.op in (">", ">="):
        left, right = right, left
    difference = _without_units(Binary("-", left, right))
    match condition.op:
        case "<=" | ">=":
            return Call("max", (Num(0), difference))
        case "<" | ">":
            return Call("max", (Num(0), Binary("+", difference, Num(1))))
        case "==" if isinstance(difference, Binary) and difference.op == "%":  # never negative
            return difference
        case "==":
            return _distance(left, right)
        case _:
            return Call("max", (Num(0), Binary("-", Num(1), _distance(left, right))))


def _distance(left: Expression, right: Expression) -> Expression:
    return Call("max", (Binary("-", left, right), Binary("-", right, left)))
