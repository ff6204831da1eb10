"""The word of an elementwise op and numbers of Python go in; its value comes out: f64 for all floating point, and whole
numbers that wrap.

For what is tried on a few numbers before anything is built. What has no value is NaN, of whatever type.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from statistics import NormalDist
from typing import Any

from wavespec.ir.dtype import DTYPES

Number = float | int
"""A bool is a number as well."""


def function_value(word: str, dtype: str, operands: tuple[Number, ...]) -> Number:
    """What the function ``word`` makes of ``operands``, as an element of ``dtype``.

    Functions of floating point come out as IEEE 754 has them, with infinities.
    """
    if word == "where":
        condition, then, otherwise = operands
        return math.nan if math.isnan(condition) else then if condition else otherwise
    row = DTYPES[dtype]
    if row.kind in ("int", "uint") and any(map(math.isnan, operands)):
        return math.nan
    if word == "popcount":  # of the bits that the type has, whatever they stand for
        operands = (int(operands[0]) % (1 << row.bits),)
    try:
        value = FUNCTION_VALUES[word](*operands)
    except OverflowError:
        value = math.inf
    except (ValueError, ZeroDivisionError):
        value = math.nan
    return converted(value, dtype)


def converted(value: Number, dtype: str) -> Number:
    """A number as an element of ``dtype``: cut off and wrapped where that is an integer; floating point as it is."""
    row = DTYPES[dtype]
    if row.is_float:
        return float(value)
    if row.kind == "bool":
        return bool(value)
    if not math.isfinite(value):
        return math.nan
    span = 1 << row.bits
    return (int(value) - int(row.smallest)) % span + int(row.smallest)


def _divided(lhs: float, rhs: float) -> float:
    if rhs != 0:
        return lhs / rhs
    return math.nan if lhs == 0 or math.isnan(lhs) else math.copysign(math.inf, lhs) * math.copysign(1, rhs)


def _fmod(lhs: Number, rhs: Number) -> Number:
    if isinstance(lhs, float):
        return math.fmod(lhs, rhs)
    return abs(lhs) % abs(rhs) * (-1 if lhs < 0 else 1)


def _power(base: float, exponent: float) -> float:
    return math.inf if base == 0 and exponent < 0 else math.pow(base, exponent)


def _log(value: float, log: Callable[[float], float] = math.log) -> float:
    return -math.inf if value == 0 else log(value)


def _log1p(value: float) -> float:
    return -math.inf if value == -1 else math.log1p(value)


def _atanh(value: float) -> float:
    return math.copysign(math.inf, value) if abs(value) == 1 else math.atanh(value)


def _logaddexp(lhs: float, rhs: float) -> float:
    """Of two equal infinities that infinity."""
    return lhs + math.log(2) if lhs == rhs else max(lhs, rhs) + math.log1p(math.exp(-abs(lhs - rhs)))


def _xlogy(lhs: float, rhs: float) -> float:
    return 0.0 if lhs == 0 and not math.isnan(rhs) else lhs * _log(rhs)


def _extreme(choose: Callable[[Number, Number], Number], *, knows_nan: bool = False) -> Callable[..., Number]:
    def value(lhs: Number, rhs: Number) -> Number:
        unknown = [math.isnan(one) for one in (lhs, rhs)]
        if any(unknown):
            return (rhs if unknown[0] else lhs) if knows_nan else math.nan
        return choose(lhs, rhs)

    return value


def _clamp(value: Number, low: Number, high: Number) -> Number:
    return math.nan if any(map(math.isnan, (value, low, high))) else min(max(value, low), high)


def _whole(to_whole: Callable[[float], int]) -> Callable[[float], float]:
    """A function to whole numbers, which leaves alone what is not finite."""
    return lambda value: float(to_whole(value)) if math.isfinite(value) else value


def _sign(value: Number) -> Number:
    return (value > 0) - (value < 0)


def _sigmoid(value: float) -> float:
    return 1 / (1 + math.exp(-value)) if value > -700 else 0.0 if value <= -700 else value


def _softplus(value: float) -> float:
    return _logaddexp(0.0, value)


def _gelu(value: float) -> float:
    return value * (1 + math.erf(value / math.sqrt(2))) / 2


def _gelu_tanh(value: float) -> float:
    return value * (1 + math.tanh(math.sqrt(2 / math.pi) * (value + 0.044715 * value**3))) / 2


def _lgamma(value: float) -> float:
    return math.inf if math.isinf(value) or (value <= 0 and value == math.floor(value)) else math.lgamma(value)


def _digamma(value: float) -> float:
    """Its slopes up to 8, where a series in ``1 / x²`` has all digits; mirrored at 1/2."""
    if value == 0 or value == math.inf:
        return -math.copysign(math.inf, value) if value == 0 else value
    if value < 0:
        turned = math.pi * math.fmod(value, 1.0)
        return math.nan if turned == 0 else _digamma(1 - value) - math.pi / math.tan(turned)
    below = 0.0
    while value < 8:
        below, value = below + 1 / value, value + 1
    square = 1 / (value * value)
    series = square * (1 / 12 - square * (1 / 120 - square * (1 / 252 - square * (1 / 240 - square / 132))))
    return math.log(value) - 0.5 / value - series - below


def _erfinv(value: float) -> float:
    if abs(value) == 1:
        return math.copysign(math.inf, value)
    return NormalDist().inv_cdf((1 + value) / 2) / math.sqrt(2) if abs(value) < 1 else math.nan


def _bessel(value: float) -> float:
    """The sum of ``(x² / 4)ⁿ / n!²``, of which no term is negative."""
    total, term, number = 1.0, 1.0, 0
    while math.isfinite(value) and term > total * 2.0**-60:
        number += 1
        term *= value * value / (4 * number * number)
        total += term
    return total if math.isfinite(value) else abs(value)


def _times_power(value: float, exponent: float) -> float:
    return value * math.pow(2.0, min(max(exponent, -300.0), 300.0))


def _inverted(value: int) -> int:
    return not value if isinstance(value, bool) else ~value


_OF_ONE: Mapping[str, Callable[[Any], Number]] = {
    "neg": lambda value: -value,
    "abs": abs,
    "sign": _sign,
    "signbit": lambda value: math.copysign(1, value) < 0,
    "isnan": math.isnan,
    "isinf": math.isinf,
    "isfinite": math.isfinite,
    "logical_not": lambda value: not value,
    "bitwise_not": _inverted,
    "popcount": lambda bits: bits.bit_count(),
    "relu": lambda value: 0 if value < 0 else value,
    "floor": _whole(math.floor),
    "ceil": _whole(math.ceil),
    "trunc": _whole(math.trunc),
    "round": _whole(round),
    "frac": lambda value: math.fmod(value, 1.0),
    "sqrt": math.sqrt,
    "rsqrt": lambda value: _divided(1.0, math.sqrt(value)),
    "cbrt": lambda value: math.copysign(abs(value) ** (1 / 3), value),
    "reciprocal": lambda value: _divided(1.0, value),
    "exp": math.exp,
    "exp2": lambda value: math.pow(2.0, value),
    "expm1": math.expm1,
    "log": _log,
    "log2": lambda value: _log(value, math.log2),
    "log10": lambda value: _log(value, math.log10),
    "log1p": _log1p,
    "sin": math.sin,
    "cos": math.cos,
    "tan": math.tan,
    "asin": math.asin,
    "acos": math.acos,
    "atan": math.atan,
    "sinh": math.sinh,
    "cosh": math.cosh,
    "asinh": math.asinh,
    "acosh": math.acosh,
    "atanh": _atanh,
    "erf": math.erf,
    "erfc": math.erfc,
    "erfinv": _erfinv,
    "lgamma": _lgamma,
    "digamma": _digamma,
    "modified_bessel_i0": _bessel,
    "tanh": math.tanh,
    "sigmoid": _sigmoid,
    "logsigmoid": lambda value: -_softplus(-value),
    "softplus": _softplus,
    "mish": lambda value: value * math.tanh(_softplus(value)),
    "silu": lambda value: value * _sigmoid(value),
    "gelu": _gelu,
    "gelu_tanh": _gelu_tanh,
}
_OF_TWO: Mapping[str, Callable[[Any, Any], Number]] = {
    "add": lambda lhs, rhs: lhs + rhs,
    "sub": lambda lhs, rhs: lhs - rhs,
    "mul": lambda lhs, rhs: lhs * rhs,
    "div": _divided,
    "floor_divide": lambda lhs, rhs: lhs // rhs,
    "remainder": lambda lhs, rhs: lhs % rhs,
    "fmod": _fmod,
    "pow": _power,
    "atan2": math.atan2,
    "hypot": math.hypot,
    "logaddexp": _logaddexp,
    "xlogy": _xlogy,
    "ldexp": _times_power,
    "nextafter": math.nextafter,
    "copysign": math.copysign,
    "maximum": _extreme(max),
    "minimum": _extreme(min),
    "fmax": _extreme(max, knows_nan=True),
    "fmin": _extreme(min, knows_nan=True),
    "lt": lambda lhs, rhs: lhs < rhs,
    "le": lambda lhs, rhs: lhs <= rhs,
    "gt": lambda lhs, rhs: lhs > rhs,
    "ge": lambda lhs, rhs: lhs >= rhs,
    "eq": lambda lhs, rhs: lhs == rhs,
    "ne": lambda lhs, rhs: lhs != rhs,
    "logical_and": lambda lhs, rhs: bool(lhs) and bool(rhs),
    "logical_or": lambda lhs, rhs: bool(lhs) or bool(rhs),
    "logical_xor": lambda lhs, rhs: bool(lhs) != bool(rhs),
    "bitwise_and": lambda lhs, rhs: lhs & rhs,
    "bitwise_or": lambda lhs, rhs: lhs | rhs,
    "bitwise_xor": lambda lhs, rhs: lhs ^ rhs,
    "bitwise_left_shift": lambda lhs, rhs: lhs << rhs if rhs < 64 else math.nan,
    "bitwise_right_shift": lambda lhs, rhs: lhs >> rhs,
}
_OF_THREE: Mapping[str, Callable[[Any, Any, Any], Number]] = {
    "fma": lambda lhs, rhs, addend: lhs * rhs + addend,
    "clamp": _clamp,
}
FUNCTION_VALUES: Mapping[str, Callable[..., Number]] = {**_OF_ONE, **_OF_TWO, **_OF_THREE}
"""A row for each function of the language but `where`, which takes no notice of the operand it does not choose."""
