"""Index expressions and what their symbols stand for in, numbers out: integers, or arrays of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial, reduce
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from wavespec.ir.expr import Expr


def evaluated(node: Expr, environment: Mapping[str, Any], inner: Callable[[Expr], Any] | None = None) -> Any:
    """The value with every symbol replaced; ``inner`` gives those of the expressions inside, where some are known."""
    if node.kind == "const":
        return node.args[0]
    if node.kind == "symbol":
        return environment[node.args[0]]
    of: Callable[[Expr], Any] = inner or partial(evaluated, environment=environment)
    if node.kind == "sum":
        total: Any = node.args[0]
        for coefficient, term in node.args[1]:
            total = total + coefficient * of(term)
        return total
    return reduce(_FUNCTIONS[node.kind], [of(argument) for argument in node.args])


def _minimum_value(left: Any, right: Any) -> Any:
    return left + (right - left) * (right < left)


def _maximum_value(left: Any, right: Any) -> Any:
    return left + (right - left) * (right > left)


def divisor(number: Any) -> Any:
    """What a division by it divides by: the size of an empty dim counts as 1.  See docs/decisions/0060."""
    return number + (number == 0)


_FUNCTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "product": lambda a, b: a * b,
    "floordiv": lambda a, b: a // divisor(b),
    "mod": lambda a, b: a % divisor(b),
    "min": _minimum_value,
    "max": _maximum_value,
    "xor": lambda a, b: a ^ b,
}
