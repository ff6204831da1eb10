"""Signs, truth values, shifts, and what kind of number one is, in steps of one lane."""

from __future__ import annotations

import math
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


def is_nan(steps: Steps, x: Value) -> Value:
    return steps("ne", x, x)


def is_infinite(steps: Steps, x: Value) -> Value:
    return steps("eq", steps("abs", x), math.inf)


def is_finite(steps: Steps, x: Value) -> Value:
    return steps("lt", steps("abs", x), math.inf)


def has_sign(steps: Steps, x: Value) -> Value:
    """Of floating point also that of a 0, or of NaN."""
    return steps("lt", steps("copysign", 1.0, x) if steps.dtype.is_float else x, 0)


def known_extreme(function: str) -> Callable[..., Value]:
    """The one of two numbers that is NaN does not count."""

    def step(steps: Steps, x: Value, y: Value) -> Value:
        joined = steps(function, x, y)
        if not steps.dtype.is_float:
            return joined
        return steps("where", is_nan(steps, x), y, steps("where", is_nan(steps, y), x, joined))

    return step


def clamp(steps: Steps, x: Value, low: Value, high: Value) -> Value:
    return steps("minimum", steps("maximum", x, low), high)


def frac(steps: Steps, x: Value) -> Value:
    return steps("sub", x, steps("trunc", x))


def next_number(steps: Steps, x: Value, y: Value) -> Value:
    """One more or one less of the bits without the sign; from 0 the smallest number with the sign of ``y``."""
    size = steps.dtype.bits
    word, bound = steps.bits(x, f"i{size}"), steps.bits(y, f"i{size}")
    # Not every machine compares numbers of 16 bits.
    wide, other = (steps.cast(one, "f32") for one in (x, y)) if size < 32 else (x, y)
    is_inward = steps("xor", steps("lt", wide, other), steps("lt", 0.0, wide))
    moved = steps("add", word, steps("where", is_inward, steps.constant(-1, word.vector.dtype), 1))
    smallest = steps("or", steps("and", bound, -(2 ** (size - 1))), 1)
    result = steps.bits(steps("where", steps("eq", wide, 0.0), smallest, moved), steps.dtype.name)
    result = steps("where", steps("eq", wide, other), y, result)
    return steps("where", is_nan(steps, wide), x, steps("where", is_nan(steps, other), y, result))


def popcount(steps: Steps, x: Value) -> Value:
    """Pairs of bits hold how many both have, then runs of four, of eight, and so on.  Masks cut off the copies of the
    sign that a shift to the right brings."""
    bits = steps.dtype.bits

    def every(size: int) -> int:
        """The lower half of every run of as many bits."""
        return sum(((1 << size // 2) - 1) << at for at in range(0, bits, size))

    pairs = steps("sub", x, steps("and", steps("shr", x, 1), every(2)))
    fours = steps("add", steps("and", pairs, every(4)), steps("and", steps("shr", pairs, 2), every(4)))
    total = steps("and", steps("add", fours, steps("shr", fours, 4)), every(8))
    shift = 8
    while shift < bits:
        total = steps("add", total, steps("shr", total, shift))
        shift *= 2
    return steps("and", total, 2 * bits - 1) if bits > 8 else total


def _truth(steps: Steps, x: Value) -> Value:
    return x if x.vector.dtype.kind == "bool" else steps("ne", x, 0)


def _is_inside(steps: Steps, y: Value) -> Value:
    """Whether a shift leaves a bit where it was not; machines differ in what they do with others."""
    below = steps("lt", y, steps.dtype.bits)
    return below if steps.dtype.kind == "uint" else steps("and", steps("le", 0, y), below)
