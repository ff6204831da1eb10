"""Signs, truth values and shifts in steps of one lane."""

from __future__ import annotations

from collections.abc import Callable

from wavespec.ir.kernel import Value
from wavespec.ops.steps import Steps


def logical(function: str) -> Callable[..., Value]:
    """A connective of truth values; a number is true unless it is 0."""

    def step(steps: Steps, lhs: Value, rhs: Value) -> Value:
        return steps(function, _truth(steps, lhs), _truth(steps, rhs))

    return step


def logical_not(steps: Steps, x: Value) -> Value:
    return bitwise_not(steps, x) if steps.dtype.kind == "bool" else steps("eq", x, 0)


def bitwise_not(steps: Steps, x: Value) -> Value:
    ones = {"bool": 1, "uint": 2**steps.dtype.bits - 1}.get(steps.dtype.kind, -1)
    return steps("xor", x, steps.constant(ones, steps.dtype))


def left_shift(steps: Steps, x: Value, y: Value) -> Value:
    shifted = steps("shl", x, steps("and", y, steps.dtype.bits - 1))
    return steps("where", _is_inside(steps, y), shifted, 0)


def right_shift(steps: Steps, x: Value, y: Value) -> Value:
    if steps.dtype.kind == "uint":
        shifted = steps("shr", x, steps("and", y, steps.dtype.bits - 1))
        return steps("where", _is_inside(steps, y), shifted, 0)
    return steps("shr", x, steps("where", _is_inside(steps, y), y, steps.dtype.bits - 1))


def absolute(steps: Steps, x: Value) -> Value:
    if steps.dtype.kind == "uint":
        return x
    return steps("abs", x) if steps.dtype.is_float else steps("maximum", x, steps("neg", x))


def sign(steps: Steps, x: Value) -> Value:
    above = steps("select_less", 0, x, 1, 0)
    return above if steps.dtype.kind == "uint" else steps("select_less", x, 0, -1, above)


def _truth(steps: Steps, x: Value) -> Value:
    return x if x.vector.dtype.kind == "bool" else steps("ne", x, 0)


def _is_inside(steps: Steps, y: Value) -> Value:
    """Whether a shift leaves a bit where it was not; machines differ in what they do with others."""
    below = steps("lt", y, steps.dtype.bits)
    return below if steps.dtype.kind == "uint" else steps("and", steps("le", 0, y), below)
