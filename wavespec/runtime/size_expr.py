"""Integer expressions of dim names go in, as nested tuples that JSON can hold; their value for given sizes
comes out.

An expression is an integer, a dim name, or `(op, left, right)`:

    ("ceildiv", "M", 128)                                   workgroups along M
    ("mul", ("ceildiv", "M", 128), ("ceildiv", "N", 256))   all of them in one axis
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, cast

SizeExpr = int | str | tuple[str, "SizeExpr", "SizeExpr"]
"""An integer, a dim name, or `(op, left, right)` with an op of `OPERATIONS`."""

_DEEPEST = 64
_EXPECTED = "a size expression is an integer, a dim name or [op, left, right]"


class InexactQuotient(ArithmeticError):
    """A division that has to be exact is not."""


def _div(left: int, right: int) -> int:
    quotient, rest = divmod(left, right)
    if rest:
        raise InexactQuotient(f"{left} / {right} is no whole number")
    return quotient


def _floordiv(left: int, right: int) -> int:
    return left // right


def _ceildiv(left: int, right: int) -> int:
    return -(-left // right)


OPERATIONS: Final[dict[str, Callable[[int, int], int]]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": _div,
    "floordiv": _floordiv,
    "ceildiv": _ceildiv,
    "mod": operator.mod,
    "min": min,
    "max": max,
    "eq": operator.eq,
    "ne": operator.ne,
    "lt": operator.lt,
    "le": operator.le,
    "gt": operator.gt,
    "ge": operator.ge,
}
"""Meaning of every op; a comparison gives 0 or 1, `div` is exact, `floordiv` and `mod` round towards minus infinity."""


def evaluate(expression: SizeExpr, sizes: Mapping[str, int]) -> int:
    """Value of `expression` for these sizes of dims.

    Raises:
        KeyError: a name without a size.
        ArithmeticError: a division by 0, or a `div` that is not exact.
    """
    if isinstance(expression, int):
        return expression
    if isinstance(expression, str):
        return sizes[expression]
    operation, left, right = expression
    return int(OPERATIONS[operation](evaluate(left, sizes), evaluate(right, sizes)))


def evaluate_all(expressions: Iterable[SizeExpr], sizes: Mapping[str, int]) -> list[int]:
    """Values of `expressions`, as `evaluate` has them; a part that several of them share is computed once."""
    known = dict[int, int]()

    def value(expression: SizeExpr) -> int:
        if isinstance(expression, int):
            return expression
        if isinstance(expression, str):
            return sizes[expression]
        if (found := known.get(id(expression))) is None:
            operation, left, right = expression
            found = known[id(expression)] = int(OPERATIONS[operation](value(left), value(right)))
        return found

    return [value(expression) for expression in expressions]


_SIGNS: Final = {"add": "+", "sub": "-", "mul": "*", "div": "/", "floordiv": "//", "mod": "%"}


def as_text(expression: SizeExpr) -> str:
    """An expression without comparisons, as a spec has it."""
    if not isinstance(expression, tuple):
        return str(expression)
    operation, *operands = expression
    texts = [f"({text})" if " " in (text := as_text(one)) else text for one in operands]
    sign = _SIGNS.get(operation)
    return f"{operation}({', '.join(map(as_text, operands))})" if sign is None else f"{texts[0]} {sign} {texts[1]}"


def names_in(*expressions: SizeExpr) -> frozenset[str]:
    """Every dim name that some of `expressions` read; a part that several of them share is looked at once."""
    names, left, seen = set[str](), [*expressions], set[int]()
    while left:
        one = left.pop()
        if isinstance(one, str):
            names.add(one)
        elif isinstance(one, tuple) and id(one) not in seen:
            seen.add(id(one))
            left += one[1:]
    return frozenset(names)


def with_expression(expression: SizeExpr, name: str, value: SizeExpr) -> SizeExpr:
    """The expression with another one in place of a name."""
    match expression:
        case str():
            return value if expression == name else expression
        case int():
            return expression
        case (function, left, right):
            return (function, with_expression(left, name, value), with_expression(right, name, value))


def from_json(value: Any, depth: int = 0) -> SizeExpr:
    """The expression that JSON lists, names and integers stand for; anything else is a `ValueError`.

    A tuple, which JSON has not, is an expression that was read before.
    """
    if isinstance(value, str | tuple) or (isinstance(value, int) and not isinstance(value, bool)):
        return cast(SizeExpr, value)
    if not isinstance(value, list) or depth > _DEEPEST:
        raise ValueError(f"{_EXPECTED}; got {value!r:.80}.")
    parts = cast("Sequence[Any]", value)
    if len(parts) != 3 or not isinstance(parts[0], str) or parts[0] not in OPERATIONS:
        raise ValueError(f"{_EXPECTED}; got {value!r:.80}.")
    operation, left, right = parts
    return (operation, from_json(left, depth + 1), from_json(right, depth + 1))
