"""Attributes of operations that stand for one row after another go in; those of the row with an index come out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from wavespec.ir.expr import Expr, const, rebuilt, total


class UnevenSteps(Exception):
    """They differ in more than numbers that go in equal steps."""


def in_steps(values: Sequence[Any], index: Expr) -> Any:
    """The value that is ``values[i]`` where the index is ``i``: expressions in it grow by as much from one to the next.

    Raises:
        UnevenSteps: there is none.
    """
    first = values[0]
    if isinstance(first, Expr):
        found = _expression(cast("Sequence[Expr]", values), index)
        name = index.args[0]
        if any(found.substitute({name: const(at)}) is not value for at, value in enumerate(values)):
            raise UnevenSteps
        return found
    if isinstance(first, tuple):
        tuples = cast("Sequence[tuple[Any, ...]]", values)
        if len({len(one) for one in tuples}) > 1:
            raise UnevenSteps
        return tuple(in_steps(each, index) for each in zip(*tuples, strict=True))
    if any(value != first or repr(value) != repr(first) for value in values[1:]):  # 0.0 is not -0.0
        raise UnevenSteps
    return first


def _expression(values: Sequence[Expr], index: Expr) -> Expr:
    if all(value is values[0] for value in values):
        return values[0]
    by_term = [{term: by for by, term in value.terms()} for value in values]
    shared = [term for term in by_term[0] if all(term in one for one in by_term)]
    alone = list(dict.fromkeys(term for one in by_term for term in one if term not in shared))
    plain = [term for term in alone if term.kind == "symbol"]  # 0 times in some rows
    parts = [(_number([value.constant_part() for value in values], index), 1)]
    parts += [(term * _number([one.get(term, 0) for one in by_term], index), 1) for term in (*shared, *plain)]
    rest = [[(term, by) for term, by in one.items() if term not in shared and term not in plain] for one in by_term]
    if len({len(one) for one in rest}) > 1:
        raise UnevenSteps
    for each in zip(*rest, strict=True):
        factors = {by for _, by in each}
        if len(factors) > 1:
            raise UnevenSteps
        parts.append((_term([term for term, _ in each], index), factors.pop()))
    return total(parts)


def _term(terms: Sequence[Expr], index: Expr) -> Expr:
    """Of the same kind, of arguments that go in steps."""
    kinds = {(term.kind, len(term.args)) for term in terms}
    if len(kinds) > 1 or terms[0].kind == "symbol":
        raise UnevenSteps
    arguments = zip(*(term.args for term in terms), strict=True)
    return rebuilt(terms[0].kind, tuple(_expression(each, index) for each in arguments))


def _number(numbers: Sequence[int], index: Expr) -> Expr:
    step = numbers[1] - numbers[0]
    if any(number != numbers[0] + step * at for at, number in enumerate(numbers)):
        raise UnevenSteps
    return index * step + numbers[0]
