"""Expressions of dim names that give a number go in, as nested tuples that JSON can hold; their value for given sizes
comes out.

An expression is a number, a dim name, or `(op, operand, ...)`:

    ("/", 1, ("sqrt", "D"))                                 what scores of attention are multiplied by
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Final, cast

NumberExpr = int | float | str | tuple[Any, ...]
"""A number, a dim name, or `(op, operand, ...)` with an op of `OPERATIONS` and expressions as operands."""

_DEEPEST = 64
_MOST_OPERANDS = 16
_EXPECTED = "an expression of a number is a number, a dim name or [op, operand, ...]"


def _minus(left: float, right: float | None = None) -> float:
    return -left if right is None else left - right


OPERATIONS: Final[dict[str, tuple[Callable[..., float], int, int]]] = {
    "+": (float.__add__, 2, 2),
    "-": (_minus, 1, 2),
    "*": (float.__mul__, 2, 2),
    "/": (float.__truediv__, 2, 2),
    "//": (float.__floordiv__, 2, 2),
    "%": (float.__mod__, 2, 2),
    "min": (min, 2, _MOST_OPERANDS),
    "max": (max, 2, _MOST_OPERANDS),
    "sqrt": (math.sqrt, 1, 1),
    "exp": (math.exp, 1, 1),
    "exp2": (math.exp2, 1, 1),
    "log": (math.log, 1, 1),
    "log2": (math.log2, 1, 1),
}
"""Meaning of every op, with the fewest and the most operands: that of Python, in f64."""


def evaluate_number(expression: NumberExpr, sizes: Mapping[str, int]) -> float:
    """Value of `expression` for these sizes of dims.

    Raises:
        KeyError: a name without a size.
        ArithmeticError: a division by 0, or a number beyond f64.
        ValueError: a root or a logarithm of what has none.
    """
    if isinstance(expression, str):
        return float(sizes[expression])
    if not isinstance(expression, tuple):
        return float(expression)
    operation, *operands = expression
    return OPERATIONS[operation][0](*(evaluate_number(operand, sizes) for operand in operands))


def dims_in_number(expression: NumberExpr) -> frozenset[str]:
    """Every dim name that `expression` reads."""
    if isinstance(expression, tuple):
        return frozenset[str]().union(*map(dims_in_number, expression[1:]))
    return frozenset((expression,)) if isinstance(expression, str) else frozenset()


def number_from_json(value: Any, depth: int = 0) -> NumberExpr:
    """The expression that JSON lists, names and numbers stand for; anything else is a `ValueError`."""
    if isinstance(value, str | int | float) and not isinstance(value, bool):
        return value
    parts = cast("list[Any]", value)
    is_list = isinstance(value, list) and len(parts) > 1 and isinstance(parts[0], str) and depth <= _DEEPEST
    if not is_list or parts[0] not in OPERATIONS:
        raise ValueError(f"{_EXPECTED}; got {value!r:.80}.")
    _, fewest, most = OPERATIONS[parts[0]]
    if not fewest <= len(parts) - 1 <= most:
        raise ValueError(f"{_EXPECTED}; got {value!r:.80}.")
    return (parts[0], *(number_from_json(part, depth + 1) for part in parts[1:]))
