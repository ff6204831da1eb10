"""The tangent, angles of a side, and the hyperbolic functions and their inverses in steps of one lane, in f32."""

from __future__ import annotations

import math

from wavespec.ir.kernel import Value
from wavespec.ops.functions import LOG2_WIDE, odd, power_of_two, powers_of_e, quarters_of_a_turn
from wavespec.ops.steps import Steps

_HALF_PI, _HALF_PI_REST = 1.5707963705062866, -4.371139000186241e-08
_TWO_THIRDS = 0x3FE5555555555555  # bits of 2/3 in f64
_MANTISSA_BITS = 52
_NEAR_ZERO = 2.0**-10
"""Below, two terms of a series have all digits of an f32, and a logarithm of what is near 1 loses few of an f64."""


def tan(steps: Steps, x: Value) -> Value:
    """``t = tan(a)`` of what is left beside quarters of a turn, ``-1 / t`` where their number is odd; in f64, so that
    neither the angle nor the quotient is rounded on the way."""
    angle, quarter = quarters_of_a_turn(steps, x)
    small = steps.cast(angle, "f32")
    # (tan(a) / a - 1) / a² for |a| <= 0.9: of large numbers the quarters are not counted exactly
    terms = (0.3333331346511841, 0.13334129750728607, 0.053860973566770554, 0.02255810610949993, 0.00646246550604701)
    terms = (*terms, 0.008332090452313423, -0.0036855253856629133, 0.00319939898326993)
    series = steps.cast(steps.polynomial(steps("mul", small, small), *terms), "f64")
    cube = steps("mul", steps("mul", angle, angle), angle)
    tangent = steps("fma", cube, series, angle)
    turned = steps("div", -1.0, tangent)
    result = steps("where", steps("eq", steps("and", quarter, 1), 0), tangent, turned)
    return steps("where", steps("eq", x, 0.0), x, steps.cast(result, "f32"))


def asin(steps: Steps, x: Value) -> Value:
    """Up to 1/2 by a series, then ``π/2 - 2 · asin(√((1 - |x|) / 2))``."""
    size, root, rest = _arc(steps, x)
    far = steps("fma", root, -2.0, _HALF_PI)
    lost = steps("fma", root, -2.0, steps("sub", _HALF_PI, far))
    far = steps("add", far, steps("add", steps("fma", rest, -2.0, _HALF_PI_REST), lost))
    return odd(steps, x, steps("select_less", size, 0.5, steps("add", root, rest), far))


def acos(steps: Steps, x: Value) -> Value:
    """Near 0 ``π/2 - asin(x)``; near 1 ``2 · asin(√((1 - x) / 2))``, which has all digits; near -1 π without that."""
    size, root, rest = _arc(steps, x)
    angle = steps("add", root, rest)
    near = steps("add", steps("sub", _HALF_PI_REST, odd(steps, x, angle)), _HALF_PI)
    twice = steps("add", angle, angle)
    left = steps("add", steps("sub", 2 * _HALF_PI_REST, twice), 2 * _HALF_PI)
    far = steps("select_less", x, 0.0, left, twice)
    return steps("select_less", size, 0.5, near, far)


def cosh(steps: Steps, x: Value) -> Value:
    """``h + 1 / (4 h)`` with ``h = e^|x| / 2``."""
    n, f = powers_of_e(steps, steps("minimum", steps("abs", x), 90.0))  # beyond, infinity
    half = power_of_two(steps, steps("sub", n, 1.0), f)
    return steps("add", half, steps("div", 0.25, half))


def asinh(steps: Steps, x: Value) -> Value:
    """``ln(|x| + √(x² + 1))``; near 0 ``x - x³ / 6``."""
    size = steps("abs", x)
    wide = steps.cast(size, "f64")
    far = _wide_log(steps, steps("add", wide, steps("sqrt", steps("fma", wide, wide, 1.0))))
    far = steps("where", steps("lt", size, math.inf), steps.cast(far, "f32"), size)
    return odd(steps, x, _near_zero(steps, size, -1 / 6, far))


def acosh(steps: Steps, x: Value) -> Value:
    """``ln(x + √(x² - 1))``: the square has all its digits in f64."""
    wide = steps.cast(x, "f64")
    result = _wide_log(steps, steps("add", wide, steps("sqrt", steps("fma", wide, wide, -1.0))))
    result = steps("where", steps("lt", x, math.inf), steps.cast(result, "f32"), x)
    return steps("where", steps("le", 1.0, x), result, math.nan)


def atanh(steps: Steps, x: Value) -> Value:
    """``ln((1 + |x|) / (1 - |x|)) / 2``; near 0 ``x + x³ / 3``."""
    size = steps("abs", x)
    wide = steps.cast(size, "f64")
    far = _wide_log(steps, steps("div", steps("add", 1.0, wide), steps("sub", 1.0, wide)))
    far = steps.cast(steps("mul", far, 0.5), "f32")
    edge = steps("where", steps("eq", size, 1.0), steps.constant(math.inf, steps.dtype), math.nan)
    far = steps("where", steps("lt", size, 1.0), far, edge)
    return odd(steps, x, _near_zero(steps, size, 1 / 3, far))


def hypot(steps: Steps, x: Value, y: Value) -> Value:
    """The root of the squares in f64, which holds them; infinite where one side is, whatever the other."""
    wide, other = steps.cast(x, "f64"), steps.cast(y, "f64")
    root = steps("sqrt", steps("fma", wide, wide, steps("mul", other, other)))
    is_infinite = steps("or", *(steps("eq", steps("abs", side), math.inf) for side in (x, y)))
    return steps("where", is_infinite, math.inf, steps.cast(root, "f32"))


def _arc(steps: Steps, x: Value) -> tuple[Value, Value, Value]:
    """``|x|``, then ``r``, the same or beyond 1/2 ``√((1 - |x|) / 2)``, and by how much the angle with this sine is
    larger."""
    size = steps("abs", x)
    half = steps("fma", size, -0.5, 0.5)
    square = steps("select_less", size, 0.5, steps("mul", size, size), half)
    root = steps("select_less", size, 0.5, size, steps("sqrt", half))
    # (asin(r) / r - 1) / r² for 0 <= r <= 1/2
    terms = (0.16666752099990845, 0.074953094124794, 0.04546914994716644, 0.024184778332710266, 0.042158305644989014)
    return size, root, steps("mul", steps("mul", root, square), steps.polynomial(square, *terms))


def _near_zero(steps: Steps, size: Value, third: float, far: Value) -> Value:
    """``x + third · x³`` of small numbers, else what is ``far`` from there."""
    cube = steps("mul", steps("mul", size, size), size)
    return steps("select_less", size, _NEAR_ZERO, steps("fma", cube, third, size), far)


def _wide_log(steps: Steps, x: Value) -> Value:
    """The natural logarithm of f64, positive and finite, with as many digits as an f32 has, and some more."""
    word = steps.bits(x, "i64")
    exponent = steps("and", steps("sub", word, _TWO_THIRDS), -(1 << _MANTISSA_BITS))
    f = steps("sub", steps.bits(steps("sub", word, exponent), "f64"), 1.0)
    n = steps.cast(steps.cast(steps("shr", exponent, _MANTISSA_BITS), "i32"), "f64")
    return steps("mul", steps("fma", f, steps.polynomial(f, *LOG2_WIDE), n), math.log(2))
