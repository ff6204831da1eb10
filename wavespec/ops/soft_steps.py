"""Steps made soft, and tails: functions of ``ln(1 + eˣ)``, and what the error function leaves, in f32."""

from __future__ import annotations

import math

from wavespec.ir.kernel import Value
from wavespec.ops.functions import NEAR_POWER, ROUND_WIDE, exp, log, log1p, scaled
from wavespec.ops.steps import Steps


def softplus(steps: Steps, x: Value) -> Value:
    """``max(x, 0) + ln(1 + e^-|x|)``: no sum is larger than the result."""
    return steps("add", steps("maximum", x, 0.0), _rest_of_maximum(steps, x))


def logsigmoid(steps: Steps, x: Value) -> Value:
    """``-ln(1 + e^-x)``."""
    return steps("sub", steps("minimum", x, 0.0), _rest_of_maximum(steps, x))


def logaddexp(steps: Steps, x: Value, y: Value) -> Value:
    """``max(x, y) + ln(1 + e^-|x - y|)``; of what is equal, and may be infinite, ``ln(2)`` more."""
    apart = steps("where", steps("eq", x, y), 0.0, steps("sub", x, y))
    return steps("add", steps("maximum", x, y), _rest_of_maximum(steps, apart))


def mish(steps: Steps, x: Value) -> Value:
    """``x · tanh(ln(1 + e))`` is ``x · n / (n + 2)`` with ``n = e² + 2e`` and ``e = eˣ``."""
    power = exp(steps, steps("minimum", x, 30.0))  # beyond, the factor is 1
    part = steps("mul", power, steps("add", power, 2.0))
    return steps("mul", x, steps("div", part, steps("add", part, 2.0)))


def xlogy(steps: Steps, x: Value, y: Value) -> Value:
    product = steps("mul", x, log(steps, y))
    return steps("where", steps("and", steps("eq", x, 0.0), steps("eq", y, y)), 0.0, product)


def erfc(steps: Steps, x: Value) -> Value:
    """Near 0 ``1 - erf(x)``, else ``e^(-x²) · p((|x| - 2) / (|x| + 2)) / (1 + 2 |x|)``; of negative ones, 2 less that.

    In f64, in which the square has all its digits; only what the power of two leaves is rounded on the way.
    """
    size = steps("minimum", steps("abs", x), 11.0)  # beyond, 0
    square = steps("mul", x, x)
    # erf(x) / x - 1 for |x| <= 1/2
    terms = (0.12837916612625122, -0.3761260211467743, 0.11282671242952347, -0.026747364550828934, 0.004698571283370256)
    near_zero = steps("sub", 1.0, steps("fma", x, steps.polynomial(square, *terms), x))
    wide = steps.cast(size, "f64")
    exponent = steps("mul", steps("mul", wide, wide), -1 / math.log(2))
    n = steps("sub", steps("add", exponent, ROUND_WIDE), ROUND_WIDE)
    power = steps.polynomial(steps("sub", exponent, n), *NEAR_POWER)
    place = steps("div", steps("sub", wide, 2.0), steps("add", wide, 2.0))
    # e^(x²) · erfc(x) · (1 + 2x) for 0.4 <= x <= 10.2, of (x - 2) / (x + 2)
    tail = (1.2769783735275269, -0.09276381134986877, -0.1660306304693222, 0.1640501767396927, -0.054210856556892395)
    tail = (*tail, -0.0080193392932415, 0.008650240488350391, 0.0011971001513302326, -0.0012470509391278028)
    power = steps("mul", power, steps.polynomial(place, *tail, -0.000288986339000985))
    near = steps.cast(steps("div", power, steps("fma", wide, 2.0, 1.0)), "f32")
    far = scaled(steps, near, steps.cast(n, "f32"))
    far = steps("select_less", x, 0.0, steps("sub", 2.0, far), far)
    return steps("select_less", size, 0.5, near_zero, far)


def _rest_of_maximum(steps: Steps, x: Value) -> Value:
    """``ln(1 + e^-|x|)``: by how much a soft maximum of 0 and x is above the larger one."""
    return log1p(steps, exp(steps, steps("neg", steps("abs", x))))
