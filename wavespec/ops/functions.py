"""Roots, powers, logarithms and the functions of geometry and of neural networks in steps of one lane, in f32.

Coefficients are minimax fits in f64 of the function that stands beside them, rounded to f32 one after the other.
"""

from __future__ import annotations

import math

from wavespec.ir.kernel import Value
from wavespec.ops.steps import Steps

_LOG2_E, _LOG2_E_REST = 1.4426950216293335, 1.925963033500011e-08
_LN_2, _LN_2_REST = 0.6931471824645996, -1.9046542121259336e-09
_LOG10_2, _LOG10_2_REST = 0.3010300099849701, -1.432098883924482e-08
_LOG10_E, _LOG10_E_REST = 0.4342944920063019, -1.0103049952192578e-08
_FLAT, _FLAT_REST = 3.1415927410125732, -8.742277657347586e-08  # π
_HALF_PI, _HALF_PI_REST = 1.5707963267948966, 6.123233995736766e-17  # in f64
_ROUND = 1.5 * 2.0**23  # added and subtracted, it rounds an f32 to an integer, which its low bits then hold
ROUND_WIDE = 1.5 * 2.0**52  # the same for f64
_ROUND_BITS = 0x4B400000
_ROUND_BIASED = _ROUND + 127  # the low bits then hold the exponent field of 2 to that integer
NEAR_POWER = (
    *(1.0, 0.6931471824645996, 0.24022646248340607, 0.05550328642129898, 0.009618489071726799),
    *(0.0013399930903688073, 0.0001534581242594868),
)
"""2^f for |f| <= 1/2, off by 2e-9 at most: closer than the instructions that machines have for it."""
LOG2_WIDE = (
    *(1.4426950407475665, -0.7213475187882897, 0.4808984377661141, -0.3606741192026267, 0.2885295925284884),
    *(-0.24042657467890763, 0.20645417515731876, -0.18095182943968072, 0.15432683291577376, -0.13614919883766938),
    *(0.1760772924221776, -0.1703988161831611),
)
"""log2(1 + f) / f for |f| <= 1/3, in f64."""
_MANTISSA_BITS = 23
_BITS_OF_4 = 0x40800000
_LEAST_OF_GELU = -5.19
"""``-|x| / 2`` where what `gelu` takes for erfc comes to the smallest normal number."""
SMALLEST_NORMAL, _LARGEST = 2.0**-126, 3.4028234663852886e38


def exp(steps: Steps, x: Value) -> Value:
    """``2ⁿ · 2ᶠ``: the product with log2(e) in one f32 would lose as many bits as n has."""
    if steps.machine.close_powers:
        return _exp_in_reach(steps, x)
    if steps.machine.scales:
        n, f = powers_of_e(steps, steps("minimum", x, 89.0))
        return steps("times_power", steps.polynomial(f, *NEAR_POWER), n)
    n, f = powers_of_e(steps, steps("maximum", steps("minimum", x, 89.0), -176.0))  # beyond, infinity or 0
    return power_of_two(steps, n, f)


def _exp_in_reach(steps: Steps, x: Value) -> Value:
    """The same where 2ᶠ may be asked of any f, so that n stays among the exponents of f32, and one factor has them all:
    beyond, f has what n lacks, and its power is infinity or so small that the product is rounded, once, or 0."""
    shifted = steps("fma", x, _LOG2_E, _ROUND_BIASED)
    shifted = steps("maximum", steps("minimum", shifted, _ROUND_BIASED + 127), _ROUND_BIASED - 126)
    n = steps("sub", shifted, _ROUND_BIASED)
    f = steps("fma", x, _LOG2_E_REST, steps("fma", x, _LOG2_E, steps("neg", n)))
    factor = steps.bits(steps("shl", steps.bits(shifted, "i32"), _MANTISSA_BITS), "f32")
    return steps("mul", steps("exp2", f), factor)


def exp_below(steps: Steps, x: Value) -> Value:
    """Of nothing positive, in a sum that has a 1, or is of minus infinity alone, whose powers are 0 exactly: what is
    less than the smallest normal number counts for nothing.

    ``2^p · (1 + r)`` where p is the rounded product with log2(e), and r what that leaves.  A power that small hides
    what ln(2) lacks in f32.
    """
    if not steps.machine.close_powers:
        return exp(steps, x)
    x = steps("maximum", x, -104.0)  # minus infinity leaves no number; this has a power that every f32 rounds to 0
    p = steps("mul", x, _LOG2_E)
    power = steps("exp2", p)
    return steps("fma", power, steps("fma", p, -_LN_2, x), power)


def close_exp(steps: Steps, x: Value) -> Value:
    """By a polynomial, whatever the machine has: what it is off by would be in many results."""
    return exp(Steps(steps.build, x, steps.hint), x)


def fast_exp(steps: Steps, x: Value) -> Value:
    """In one power of two: the product loses as many bits as the result's exponent has."""
    return steps("exp2", steps("mul", x, _LOG2_E))


def expm1(steps: Steps, x: Value) -> Value:
    """``2ⁿ · (eᶠ - 1) + (2ⁿ - 1)``, all of it by way of halves, because 2ⁿ itself may be too large."""
    near = steps("maximum", steps("minimum", x, 89.0), -18.0)  # beyond, infinity or -1
    shifted = steps("fma", near, _LOG2_E, _ROUND)
    n = steps("sub", shifted, _ROUND)
    f = steps("fma", n, -_LN_2_REST, steps("fma", n, -_LN_2, near))
    # (e^f - 1 - f) / f² for |f| <= 0.3467
    terms = (0.4999999701976776, 0.1666654646396637, 0.04166743531823158, 0.008366258814930916, 0.0013870649272575974)
    rest = steps("fma", steps("mul", f, f), steps.polynomial(f, *terms), f)
    biased = steps("sub", steps.bits(shifted, "i32"), _ROUND_BITS - 126)
    half = steps.bits(steps("shl", biased, _MANTISSA_BITS), "f32")
    total = steps("fma", rest, half, steps("sub", half, 0.5))
    return odd(steps, x, steps("add", total, total))


def sinh(steps: Steps, x: Value) -> Value:
    """Near 0 ``x + x³ · p(x²)``, else ``h - 1 / (4 h)`` with ``h = eˣ / 2``."""
    size = steps("abs", x)
    square = steps("mul", size, size)
    # (sinh(x) / x - 1) / x² for |x| <= 1
    near = (0.1666666716337204, 0.00833331048488617, 0.00019842895562760532, 2.7822131869470468e-06)
    small = steps("fma", steps("mul", size, square), steps.polynomial(square, *near), size)
    n, f = powers_of_e(steps, steps("minimum", size, 90.0))
    half = power_of_two(steps, steps("sub", n, 1.0), f)
    large = steps("sub", half, steps("div", 0.25, half))
    return odd(steps, x, steps("select_less", size, 1.0, small, large))


def log(steps: Steps, x: Value) -> Value:
    return _logarithm(steps, x, (_LN_2, _LN_2_REST), (1.0, 0.0))


def log2(steps: Steps, x: Value) -> Value:
    return _logarithm(steps, x, (1.0, 0.0), (_LOG2_E, _LOG2_E_REST))


def log10(steps: Steps, x: Value) -> Value:
    return _logarithm(steps, x, (_LOG10_2, _LOG10_2_REST), (_LOG10_E, _LOG10_E_REST))


def log1p(steps: Steps, x: Value) -> Value:
    """``1 + x`` says the octave alone: of it ``x · 2⁻ⁿ + (2⁻ⁿ - 1)`` has all digits, none of which a sum has lost."""
    word = steps.bits(steps("add", x, 1.0), "i32")
    exponent = _octave(steps, word)
    part = steps.bits(steps("sub", steps.bits(x, "i32"), exponent), "f32")
    four = steps.bits(steps("sub", _BITS_OF_4, exponent), "f32")  # one itself is no normal number in the largest octave
    f = steps("add", part, steps("fma", four, 0.25, -1.0))
    n = steps("mul", steps.cast(exponent, "f32"), 2.0**-_MANTISSA_BITS)
    total = _of_octaves(steps, n, f, (_LN_2, _LN_2_REST), (1.0, 0.0))
    total = steps("where", steps("lt", x, math.inf), total, x)
    edge = steps("where", steps("eq", x, -1.0), steps.constant(-math.inf, steps.dtype), math.nan)
    return odd(steps, x, steps("where", steps("lt", -1.0, x), total, edge))


def power(steps: Steps, x: Value, y: Value) -> Value:
    """``2^(y · log2|x|)``, the exponent in f64: an f32 has no digits left behind the point of a large one."""
    size = steps("abs", x)
    whole, f = octaves(steps, size)
    wide = steps.cast(f, "f64")
    series = steps.polynomial(wide, *LOG2_WIDE)
    exponent = steps("fma", wide, series, steps.cast(whole, "f64"))
    exponent = steps("where", steps("lt", size, math.inf), exponent, steps.cast(size, "f64"))
    exponent = steps("where", steps("eq", size, 0.0), -math.inf, exponent)
    finite = steps("maximum", steps("minimum", y, _LARGEST), -_LARGEST)
    exponent = steps("mul", exponent, steps.cast(finite, "f64"))
    exponent = steps("select_less", 130.0, exponent, 130.0, exponent)
    exponent = steps("select_less", exponent, -160.0, -160.0, exponent)
    n = steps("sub", steps("add", exponent, ROUND_WIDE), ROUND_WIDE)
    result = power_of_two(steps, steps.cast(n, "f32"), steps.cast(steps("sub", exponent, n), "f32"))
    half = steps("mul", y, 0.5)
    is_whole = steps("eq", steps("trunc", y), y)
    is_odd = steps("and", is_whole, steps("ne", steps("trunc", half), half))
    result = steps("where", is_odd, steps("copysign", result, x), result)
    is_negative = steps("and", steps("lt", x, 0.0), steps("lt", -math.inf, x))
    is_imaginary = steps("and", is_negative, steps("ne", steps("trunc", y), y))
    result = steps("where", is_imaginary, math.nan, result)
    return steps("where", steps("or", steps("eq", x, 1.0), steps("eq", y, 0.0)), 1.0, result)


def rsqrt(steps: Steps, x: Value) -> Value:
    """By the machine's instruction where that is as close as what libraries have, which is it."""
    if steps.machine.close_roots and steps.dtype.name == "f32":
        return steps("rsqrt", x)
    return steps("div", 1.0, steps("sqrt", x))


def reciprocal(steps: Steps, x: Value) -> Value:
    return steps("div", 1.0, x)


def close_reciprocal(steps: Steps, x: Value) -> Value:
    return steps.ratio(1.0, x)


def cbrt(steps: Steps, x: Value) -> Value:
    """A third of the logarithm gives the root to some digits; Newton's step doubles them."""
    size = steps("abs", x)
    near = steps("exp2", steps("mul", log2(steps, size), 1 / 3))
    other = steps("div", size, steps("mul", near, near))
    root = odd(steps, x, steps("fma", steps("sub", other, near), 1 / 3, near))
    return steps("where", steps("eq", steps("add", x, x), x), x, root)  # 0 and infinity are their own roots


def sin(steps: Steps, x: Value) -> Value:
    turned = _turned(steps, x, 0)
    return steps("where", steps("eq", x, 0.0), x, turned)


def cos(steps: Steps, x: Value) -> Value:
    return _turned(steps, x, 1)


def atan2(steps: Steps, y: Value, x: Value) -> Value:
    """The angle in the first quarter, then mirrored to where the point is."""
    angle = _first_quarter(steps, steps("abs", y), steps("abs", x))
    is_left = steps("lt", steps("copysign", 1.0, x), 0.0)  # of -0.0 as well
    turned = steps("add", steps("sub", _FLAT_REST, angle), _FLAT)
    return odd(steps, y, steps("where", is_left, turned, angle))


def atan(steps: Steps, x: Value) -> Value:
    return odd(steps, x, _first_quarter(steps, steps("abs", x), steps.constant(1.0, steps.dtype)))


def _first_quarter(steps: Steps, up: Value, right: Value) -> Value:
    """The angle of the smaller to the larger side, none negative; turned where that is up."""
    small, large = steps("minimum", up, right), steps("maximum", up, right)
    alike = steps("where", steps("eq", large, 0.0), 0.0, 1.0)
    ratio = steps("where", steps("eq", small, large), alike, steps("div", small, large))
    square = steps("mul", ratio, ratio)
    # (atan(r) / r - 1) / r² for 0 <= r <= 1
    near = (-0.33333298563957214, 0.1999853104352951, -0.14264051616191864, 0.10951174795627594, -0.08400475233793259)
    far = (0.05790654569864273, -0.031127002090215683, 0.010887361131608486, -0.0017875476041808724)
    angle = steps("fma", steps("mul", ratio, square), steps.polynomial(square, *near, *far), ratio)
    turned = steps("add", steps("sub", _FLAT_REST / 2, angle), _FLAT / 2)
    return steps("select_less", right, up, turned, angle)


def erf(steps: Steps, x: Value) -> Value:
    """Near 0 ``x + x · p(x²)``, else ``1 - 2^q(|x|)``."""
    size = steps("minimum", steps("abs", x), 4.0)  # 1 - erf(4) is below half a digit of 1
    square = steps("mul", size, size)
    # erf(x) / x - 1 for |x| <= 0.85
    near = (0.12837916612625122, -0.3761257231235504, 0.11282717436552048, -0.02680254727602005, 0.00505109503865242)
    small = steps("fma", size, steps.polynomial(square, *near, -0.000631513015832752), size)
    # log2(1 - erf(x)) for 0.85 <= x <= 4.1
    far = (-0.0001654821098782122, -1.6273822784423828, -0.9184220433235168, -0.15068665146827698, 0.03243030607700348)
    rest = steps("exp2", steps.polynomial(size, *far, -0.004482711665332317, 0.00029218519921414554))
    return odd(steps, x, steps("select_less", size, 0.85, small, steps("sub", 1.0, rest)))


def tanh(steps: Steps, x: Value) -> Value:
    """Near 0 ``x + x³ · p(x²)``, else ``1 - 2 / (e^2|x| + 1)``."""
    size = steps("abs", x)
    square = steps("mul", size, size)
    # (tanh(x) / x - 1) / x² for |x| <= 0.8
    near = (-0.33333298563957214, 0.13332270085811615, -0.05385585501790047, 0.02131400816142559, -0.007425215095281601)
    small = steps("fma", steps("mul", size, square), steps.polynomial(square, *near, 0.0015930383233353496), size)
    power = steps("exp2", steps("mul", size, 2 * _LOG2_E))
    large = steps("sub", 1.0, steps("div", 2.0, steps("add", power, 1.0)))
    return odd(steps, x, steps("select_less", size, 0.8, small, large))


def fast_tanh(steps: Steps, x: Value) -> Value:
    """``1 - 2 / (e^2x + 1)``, whose error is that of numbers near 1 wherever the result is small."""
    power = steps("exp2", steps("mul", x, 2 * _LOG2_E))
    return steps("sub", 1.0, steps("div", 2.0, steps("add", power, 1.0)))


def sigmoid(steps: Steps, x: Value) -> Value:
    return steps.ratio(1.0, _one_plus_exp(steps, x))


def silu(steps: Steps, x: Value) -> Value:
    return steps.ratio(x, _one_plus_exp(steps, x))


def relu(steps: Steps, x: Value) -> Value:
    return steps("select_less", x, 0, 0, x)  # the larger of -0 and 0 is 0


def gelu(steps: Steps, x: Value) -> Value:
    """``max(x, 0) - |x| / 2 · erfc(|x| / √2)``: no difference of near numbers, and no cases.

    The larger of x and 0 is ``x / 2 + |x| / 2``, which of -∞ is NaN, as torch has it: ``-∞ · 0``.
    """
    half = steps("mul", steps("abs", x), -0.5)
    least = _LEAST_OF_GELU if steps.machine.slow_subnormals else -8.0  # beyond, erfc is 0
    near = steps("maximum", half, least)
    # log2(erfc(x / √2)) for 0 <= x <= 7, of -x / 2; falls on from there
    tail = (0.0, 2.3022220134735107, -1.8366485834121704, 0.42102089524269104, 0.11592673510313034)
    tail = (*tail, 0.008706419728696346, -0.008414288982748985, -0.0035912892781198025, -0.00048692894051782787)
    power = steps("exp2", steps.polynomial(near, *tail))
    larger = steps("fma", x, 0.5, steps("neg", half))
    result = steps("fma", near, power, larger)
    return steps("select_less", half, least, larger, result) if steps.machine.slow_subnormals else result


def gelu_tanh(steps: Steps, x: Value) -> Value:
    """``x / 2 · (1 + tanh(u))`` is ``x · sigmoid(2u)``, with ``u = √(2/π) · (x + 0.044715 x³)``."""
    factor = 2 * math.sqrt(2 / math.pi)
    twice = steps("mul", x, steps.polynomial(steps("mul", x, x), factor, 0.044715 * factor))
    return steps.ratio(x, _one_plus_exp(steps, twice))


def powers_of_e(steps: Steps, x: Value) -> tuple[Value, Value]:
    """``n``, whole, and ``f``, for which ``eˣ = 2ⁿ · 2ᶠ``."""
    n = steps("sub", steps("fma", x, _LOG2_E, _ROUND), _ROUND)
    return n, steps("fma", x, _LOG2_E_REST, steps("fma", x, _LOG2_E, steps("neg", n)))


def power_of_two(steps: Steps, n: Value, f: Value) -> Value:
    """``2ⁿ · 2ᶠ`` of a whole n from -254 to 250 and ``|f| <= 1/2``."""
    return scaled(steps, steps("exp2", f) if steps.machine.close_powers else steps.polynomial(f, *NEAR_POWER), n)


def scaled(steps: Steps, near: Value, n: Value) -> Value:
    """``near · 2ⁿ`` of a whole n from -254 to 250.  What n is beyond the exponents of f32 two factors with half of it
    each have; only the second can round.  Of -254 both are 0: what is 0 anyway, such as the weight of what a mask
    leaves out, is no number below the normal ones on the way, with which some CPUs are slow."""
    if steps.machine.scales:
        return steps("times_power", near, n)
    word = steps.bits(steps("add", n, _ROUND), "i32")  # n in its low bits, below zeros that a shift to the right leaves
    half = steps("shr", word, 1)
    return steps("mul", steps("mul", near, _whole_power(steps, half)), _whole_power(steps, steps("sub", word, half)))


def _whole_power(steps: Steps, word: Value) -> Value:
    """``2ⁿ`` of the whole n, from -126 to 127, in the low bits of a word, 0 of -127; a shift to the exponent drops the
    others."""
    exponent = steps("shl", word, _MANTISSA_BITS)
    return steps.bits(steps("add", exponent, 127 << _MANTISSA_BITS), "f32")


def octaves(steps: Steps, x: Value) -> tuple[Value, Value]:
    """``n``, whole, and ``f`` with ``x = 2ⁿ · (1 + f)`` and ``|f| <= 1/3``, of positive finite numbers."""
    is_tiny = steps("lt", x, SMALLEST_NORMAL)
    scaled = steps("where", is_tiny, steps("mul", x, 2.0**25), x)
    word = steps.bits(scaled, "i32")
    exponent = _octave(steps, word)
    f = steps("sub", steps.bits(steps("sub", word, exponent), "f32"), 1.0)
    offset = steps("where", is_tiny, steps.constant(-25.0, steps.dtype), 0.0)
    return steps("fma", steps.cast(exponent, "f32"), 2.0**-_MANTISSA_BITS, offset), f


def _octave(steps: Steps, word: Value) -> Value:
    """``n`` where a word has its exponent, of which it leaves a number from 2/3 to below 4/3."""
    return steps("and", steps("sub", word, 0x3F2AAAAB), -(1 << _MANTISSA_BITS))  # bits of 2/3


def _logarithm(steps: Steps, x: Value, octave: tuple[float, float], scale: tuple[float, float]) -> Value:
    total = _of_octaves(steps, *octaves(steps, x), octave, scale)
    total = steps("where", steps("lt", x, math.inf), total, x)
    edge = steps("where", steps("eq", x, 0.0), steps.constant(-math.inf, steps.dtype), math.nan)
    return steps("where", steps("lt", 0.0, x), total, edge)


def _of_octaves(steps: Steps, n: Value, f: Value, octave: tuple[float, float], scale: tuple[float, float]) -> Value:
    """``n · octave + scale · ln(1 + f)``; both factors have more digits than one f32."""
    # (ln(1 + f) - f) / f² for |f| <= 1/3
    near = (-0.5, 0.3333321511745453, -0.2499980479478836, 0.20010444521903992, -0.1668018102645874, 0.1400534063577652)
    series = steps.polynomial(f, *near, -0.12188342958688736, 0.13986706733703613, -0.1287449598312378)
    rest = steps("mul", steps("mul", f, f), series)
    if scale[1]:
        rest = steps("fma", f, scale[1], steps("mul", rest, scale[0]))
    if octave[1]:
        rest = steps("fma", n, octave[1], rest)
    return steps("fma", n, octave[0], steps("fma", f, scale[0], rest))


def quarters_of_a_turn(steps: Steps, x: Value) -> tuple[Value, Value]:
    """What is left of x, in f64, beside whole quarters, and how many these are, in their low bits as i32."""
    wide = steps.cast(x, "f64")
    shifted = steps("fma", wide, 2 / math.pi, ROUND_WIDE)
    n = steps("sub", shifted, ROUND_WIDE)
    angle = steps("fma", n, -_HALF_PI_REST, steps("fma", n, -_HALF_PI, wide))
    return angle, steps.cast(steps.bits(shifted, "i64"), "i32")


def _turned(steps: Steps, x: Value, quarters: int) -> Value:
    """``sin(x + quarters · π/2)``: f64 holds what is left of x, up to 2^50, beside quarters of a turn."""
    angle, quarter = quarters_of_a_turn(steps, x)
    if quarters:
        quarter = steps("add", quarter, quarters)
    angle = steps.cast(angle, "f32")
    square = steps("mul", angle, angle)
    # (sin(a) / a - 1) / a² and (cos(a) - 1 + a²/2) / a⁴ for |a| <= π/4
    terms = (-0.16666655242443085, 0.008332189172506332, -0.00019518287444952875)
    sine = steps("fma", steps("mul", angle, square), steps.polynomial(square, *terms), angle)
    terms = (-0.5, 0.04166664555668831, -0.0013887310633435845, 2.443256562401075e-05)
    cosine = steps("fma", square, steps.polynomial(square, *terms), 1.0)
    result = steps("where", steps("eq", steps("and", quarter, 1), 0), sine, cosine)
    return steps("where", steps("eq", steps("and", quarter, 2), 0), result, steps("neg", result))


def odd(steps: Steps, x: Value, positive: Value) -> Value:
    """What is known of ``|x|`` with the sign of ``x``."""
    return steps("copysign", positive, x)


def _one_plus_exp(steps: Steps, x: Value) -> Value:
    """``1 + e^-x``; adding 1 hides what the exponent lacks."""
    return steps("add", steps("exp2", steps("mul", x, -_LOG2_E)), 1.0)
