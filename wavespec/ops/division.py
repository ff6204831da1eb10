"""Division with a rest in steps of one lane: of whole numbers, whose machines differ where a divisor is 0 or -1, and of
floating point."""

from __future__ import annotations

from wavespec.ir.kernel import Value
from wavespec.ops.steps import Steps

_DIGITS = {"f32": 23, "f64": 52}
_EXPONENTS = {"f32": (-149, 127), "f64": (-1074, 1023)}
"""Powers of two between which all numbers are, those without a leading digit included."""


def floor_divide(steps: Steps, x: Value, y: Value) -> Value:
    if steps.dtype.is_float:
        return _float_floor_divide(steps, x, y)
    quotient = steps("quotient", x, _harmless(steps, y))
    if steps.dtype.kind == "uint":
        return quotient
    rest = steps("rest", x, _harmless(steps, y))
    quotient = steps("where", _is_beyond(steps, rest, y), steps("sub", quotient, 1), quotient)
    return steps("where", steps("eq", y, -1), steps("neg", x), quotient)


def remainder(steps: Steps, x: Value, y: Value) -> Value:
    rest = fmod(steps, x, y)
    if steps.dtype.kind == "uint":
        return rest
    return steps("where", _is_beyond(steps, rest, y), steps("add", rest, y), rest)


def fmod(steps: Steps, x: Value, y: Value) -> Value:
    """Of floating point exact: a division by hand, as many digits of the quotient at a time as one number has."""
    if not steps.dtype.is_float:
        return steps("rest", x, _harmless(steps, y))
    rest, size, digits = steps("abs", x), steps("abs", y), _DIGITS[steps.dtype.name]
    least, most = _EXPONENTS[steps.dtype.name]
    for power in range((most - least) // digits * digits, -1, -digits):
        rest = _rest(steps, rest, _scaled(steps, size, power, most // digits * digits))
    return steps("copysign", rest, x)


def _scaled(steps: Steps, x: Value, power: int, limit: int) -> Value:
    """``x · 2^power``, exact or infinite, by factors of at most 2^limit."""
    while power:
        part = min(power, limit)
        x, power = steps("mul", x, 2.0**part), power - part
    return x


def _rest(steps: Steps, x: Value, y: Value) -> Value:
    """What a division leaves of ``x >= 0``: the quotient, below 2^(digits + 1), is right or, rounded, 1 too large.

    An infinite divisor leaves all of it.
    """
    quotient = steps("trunc", steps("div", x, y))
    rest = steps("fma", steps("neg", quotient), y, x)
    rest = steps("select_less", rest, 0.0, steps("add", rest, y), rest)
    return steps("select_less", x, y, x, rest)


def _float_floor_divide(steps: Steps, x: Value, y: Value) -> Value:
    """As torch does it: the quotient without its rest, which may be off by rounding."""
    rest = fmod(steps, x, y)
    quotient = steps("div", steps("sub", x, rest), y)
    quotient = steps("where", _is_beyond(steps, rest, y), steps("sub", quotient, 1.0), quotient)
    whole = steps("floor", quotient)
    whole = steps("select_less", 0.5, steps("sub", quotient, whole), steps("add", whole, 1.0), whole)
    plain = steps("div", x, y)
    zero = steps("copysign", steps("mul", quotient, 0.0), plain)
    whole = steps("where", steps("eq", quotient, 0.0), zero, whole)
    return steps("where", steps("eq", y, 0.0), plain, whole)


def _is_beyond(steps: Steps, rest: Value, y: Value) -> Value:
    """Whether a rest has another sign than the divisor."""
    differ = steps("xor", steps("lt", rest, 0), steps("lt", y, 0))
    return steps("and", steps("ne", rest, 0), differ)


def _harmless(steps: Steps, y: Value) -> Value:
    """A divisor that no machine stops at: not 0, and not -1, by which the smallest number cannot be divided."""
    harmful = steps("eq", y, 0)
    if steps.dtype.kind == "int":
        harmful = steps("or", harmful, steps("eq", y, -1))
    return steps("where", harmful, 1, y)
