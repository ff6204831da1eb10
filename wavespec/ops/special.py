"""The gamma function, the inverse of the error function and a Bessel function in steps of one lane: in f64, of f32.

Coefficients are minimax fits of the function that stands beside them. What is subtracted near a zero of a function has
the digits of an f64, so that an f32 is left with its own.
"""

from __future__ import annotations

import math

from wavespec.ir.kernel import Value
from wavespec.ops.functions import NEAR_POWER, ROUND_WIDE, odd, scaled
from wavespec.ops.steps import Steps

_TWO_THIRDS = 0x3FE5555555555555  # bits of 2/3 in f64
_MANTISSA_BITS = 52
_SINE = (
    *(3.141592653589635, -5.167712779987959, 2.550164035906745, -0.5992644339357286, 0.08214479467064854),
    *(-0.007364005472115722, 0.0004474920849077101),
)
"""sin(π r) / r for |r| <= 1/2, of r²."""
_COSINE = (
    *(0.9999999999992479, -4.93480220024985, 4.0587121075374375, -1.33526231526157, 0.2353254365877112),
    *(-0.02577631642731586, 0.0018399894372694043),
)
"""cos(π r), of r²."""


def lgamma(steps: Steps, x: Value) -> Value:
    """``ln |Γ(x)|``: below 5/2 that of t, 3/2 <= t <= 5/2, less ``ln(Γ(t) / Γ(x))``, else Stirling's series;
    of negative ones ``ln(π / |x sin(π x)|)`` less that of ``-x``."""
    wide = steps.cast(x, "f64")
    size = steps("abs", wide)
    beside_two = steps(
        "sub", size, steps("select_less", size, 0.5, 0.0, steps("select_less", size, 1.5, 1.0, 2.0))
    )  # t - 2
    up = steps("select_less", size, 0.5, steps("fma", size, size, size), steps("select_less", size, 1.5, size, 1.0))
    # lnΓ(2 + d) / d for |d| <= 1/2
    terms = (0.42278433509844865, 0.3224670334241219, -0.06735230104594789, 0.020580808424383427, -0.007385551491347285)
    terms = (*terms, 0.0028905105477798577, -0.0011927428713188603, 0.000509664345964222, -0.00022327966351536556)
    terms = (*terms, 9.951609827275654e-05, -4.420674109062643e-05, 2.0169787019584055e-05, -1.1453943505060186e-05)
    near = steps("mul", beside_two, steps.polynomial(beside_two, *terms, 5.3193215132047825e-06))
    logarithm = wide_log(steps, steps("select_less", size, 2.5, up, size))
    inverse = steps("div", 1.0, size)
    # y · (lnΓ(y) - (y - 1/2) · ln y + y) - y · ln(2 π) / 2 for y >= 5/2, of 1 / y²
    series = (0.08333333333319239, -0.002777777664357704, 0.0007936354605354852, -0.0005944254988312451)
    series = (*series, 0.0008196822566927878, -0.001566877711180605, 0.002825830321774403, -0.0028705513280526907)
    rest = steps("mul", inverse, steps.polynomial(steps("mul", inverse, inverse), *series))
    rest = steps("add", rest, steps("sub", math.log(2 * math.pi) / 2, size))
    far = steps("fma", steps("sub", size, 0.5), logarithm, rest)
    positive = steps("select_less", size, 2.5, steps("sub", near, logarithm), far)
    turned = steps("sub", size, steps("round", size))
    sine = steps("abs", steps("mul", turned, steps.polynomial(steps("mul", turned, turned), *_SINE)))
    mirrored = wide_log(steps, steps("div", math.pi, steps("mul", size, sine)))
    result = steps("select_less", wide, 0.0, steps("sub", mirrored, positive), positive)
    is_pole = steps("and", steps("le", wide, 0.0), steps("eq", turned, 0.0))
    is_infinite = steps("or", is_pole, steps("eq", size, math.inf))
    return steps("where", is_infinite, math.inf, steps.cast(result, "f32"))


def digamma(steps: Steps, x: Value) -> Value:
    """The slope of ``ln Γ``: a series in ``1 / u²`` of ``u >= 4``, to which four steps lead; of negative numbers that
    of ``1 - x`` less ``π / tan(π x)``."""
    wide = steps.cast(x, "f64")
    place = steps("select_less", wide, 0.0, steps("sub", 1.0, wide), wide)
    u = steps("select_less", place, 4.0, steps("add", place, 4.0), place)
    # 1/x + 1/(x + 1) + 1/(x + 2) + 1/(x + 3), of p = x (x + 3)
    product = steps("mul", place, steps("add", place, 3.0))
    above = steps("mul", steps("fma", place, 2.0, 3.0), steps("fma", product, 2.0, 2.0))
    four = steps("div", above, steps("mul", product, steps("add", product, 2.0)))
    inverse = steps("div", 1.0, u)
    square = steps("mul", inverse, inverse)
    # u² · (ln(u) - 1 / (2 u) - ψ(u)) for u >= 4, of 1 / u²
    terms = (0.08333333333326924, -0.00833333323248215, 0.003968227695065638, -0.0041640544073898835)
    series = steps.polynomial(square, *terms, 0.007448581510788015, -0.017738117815054525, 0.03336513221656258)
    far = steps("fma", inverse, -0.5, wide_log(steps, u))
    far = steps("sub", far, steps("mul", square, series))
    positive = steps("select_less", place, 4.0, steps("sub", far, four), far)
    turned = steps("sub", wide, steps("round", wide))
    around = steps("mul", turned, turned)
    sine = steps("mul", turned, steps.polynomial(around, *_SINE))
    slope = steps("div", steps("mul", steps.polynomial(around, *_COSINE), math.pi), sine)
    result = steps.cast(steps("select_less", wide, 0.0, steps("sub", positive, slope), positive), "f32")
    is_pole = steps("and", steps("lt", x, 0.0), steps("eq", turned, 0.0))
    result = steps("where", is_pole, math.nan, result)
    result = steps("where", steps("eq", x, 0.0), steps("copysign", math.inf, steps("neg", x)), result)
    return steps("where", steps("eq", x, math.inf), math.inf, result)


def erfinv(steps: Steps, x: Value) -> Value:
    """``x · p(w)`` with ``w = -ln(1 - x²)``; far out of its root."""
    size = steps("abs", x)
    wide = steps.cast(size, "f64")
    w = steps("neg", wide_log(steps, steps("mul", steps("sub", 1.0, wide), steps("add", 1.0, wide))))
    # erfinv(x) / x for w <= 6, of w - 3
    near = (1.6235420103927158, 0.24163040379017345, -0.005738166673979439, -0.0008361787581922573)
    near = (*near, 0.00019510229640199938, -1.2720408570086267e-05, -1.7676169065443272e-06, 4.519472619499686e-07)
    near = (*near, -1.9411591408408924e-08, -5.917819597720749e-09, 6.745184100173228e-10, 1.9701289962659887e-11)
    # and for 6 <= w <= 16, of √w - 13/4: the last f32 below 1 has 15.94
    far = (3.083885604365595, 1.0052589951582618, 0.005371422911614932, -0.003751987933970312, 0.0024846185667249466)
    far = (*far, -0.0016822938729778127, 0.0009857633607583765, -0.0003730483855055897, -4.038098225849596e-05)
    root = steps("sub", steps("sqrt", steps("maximum", w, 0.0)), 3.25)
    factor = steps.polynomial(root, *far, 9.133784194371593e-05)
    factor = steps("select_less", w, 6.0, steps.polynomial(steps("sub", w, 3.0), *near), factor)
    inside = odd(steps, x, steps.cast(steps("mul", wide, factor), "f32"))
    edge = steps("where", steps("eq", size, 1.0), odd(steps, x, steps.constant(math.inf, steps.dtype)), math.nan)
    return steps("where", steps("lt", size, 1.0), inside, edge)


def bessel_i0(steps: Steps, x: Value) -> Value:
    """A series in ``x²`` up to 8, else ``eˣ / √x`` times one in ``1 / x``."""
    size = steps("minimum", steps("abs", x), 96.0)  # beyond, infinity
    wide = steps.cast(size, "f64")
    # I₀(x) for |x| <= 8, of x²
    terms = (
        0.9999999997431299,
        0.25000000115556303,
        0.015624999140668472,
        0.0004340280276997327,
        6.781646537440732e-06,
    )
    terms = (*terms, 6.782015176666883e-08, 4.707653445342245e-10, 2.4095807854096087e-12, 9.221437658211749e-15)
    terms = (*terms, 3.1582716592600754e-17, 4.66075445367238e-20, 2.8886773392558603e-22)
    near = steps.cast(steps.polynomial(steps("mul", wide, wide), *terms), "f32")
    exponent = steps("mul", wide, 1 / math.log(2))
    n = steps("sub", steps("add", exponent, ROUND_WIDE), ROUND_WIDE)
    power = steps.polynomial(steps("sub", exponent, n), *NEAR_POWER)
    # I₀(x) · e⁻ˣ · √x for x >= 8, of 1 / x
    series = (0.3989422803486322, 0.04986783906945196, 0.028041596739860196, 0.029790933179536974)
    series = (*series, 0.027236240209719095, 0.3728431763593113, -2.1197724894034526, 9.029041910927784)
    large = steps.polynomial(steps("div", 1.0, wide), *series)
    large = steps("div", steps("mul", power, large), steps("sqrt", wide))
    far = scaled(steps, steps.cast(large, "f32"), steps.cast(n, "f32"))
    return steps("select_less", size, 8.0, near, far)


def ldexp(steps: Steps, x: Value, y: Value) -> Value:
    """``x · 2ⁿ · 2ᶠ``, of which only the last product is rounded; 0 and what is infinite stay what they are."""
    exponent = steps.cast(steps("maximum", steps("minimum", y, 300.0), -300.0), "f64")  # beyond, infinity or 0
    shifted = steps("add", exponent, ROUND_WIDE)  # n in its low bits
    f = steps.polynomial(steps("sub", exponent, steps("sub", shifted, ROUND_WIDE)), *NEAR_POWER)
    biased = steps("add", steps.bits(shifted, "i64"), 1023)
    power = steps.bits(steps("shl", biased, _MANTISSA_BITS), "f64")
    return steps.cast(steps("mul", steps("mul", steps.cast(x, "f64"), power), f), "f32")


def wide_log(steps: Steps, x: Value) -> Value:
    """The natural logarithm of an f64, positive and finite, with 48 of its digits however near it is to 1."""
    word = steps.bits(x, "i64")
    exponent = steps("and", steps("sub", word, _TWO_THIRDS), -(1 << _MANTISSA_BITS))
    part = steps.bits(steps("sub", word, exponent), "f64")
    n = steps.cast(steps.cast(steps("shr", exponent, _MANTISSA_BITS), "i32"), "f64")
    ratio = steps("div", steps("sub", part, 1.0), steps("add", part, 1.0))
    square = steps("mul", ratio, ratio)
    # (atanh(s) / s - 1) / s² for |s| <= 1/5
    terms = (0.33333333333333515, 0.19999999999579773, 0.14285714446766393, 0.11111088009694131, 0.09092482384607681)
    series = steps.polynomial(square, *terms, 0.07637608723078392, 0.07597015551943119)
    twice = steps("add", ratio, ratio)
    logarithm = steps("fma", steps("mul", twice, square), series, twice)
    return steps("fma", n, math.log(2), logarithm)
