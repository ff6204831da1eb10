"""Ranges of numbers of operands go in; between which numbers the results of an operation are comes out."""

from __future__ import annotations

import itertools
import math
from typing import Final

from wavespec.ir.kernel import Op
from wavespec.ir.tile_ops import CAST, ELEMENTWISE, REGISTER, SCALAR, SIZE

Range = tuple[float, float]
ANY: Final = (-math.inf, math.inf)
LARGEST, _SMALLEST = (2 - 2.0**-23) * 2.0**127, 2.0**-126
_EXACT: Final = ("neg", "maximum", "minimum")
MONOTONIC: Final = (*_EXACT, "add", "sub", "mul", "fma", "floor", "exp2", "log2", "rsqrt")
"""In each operand: the extremes of their results are at extremes of operands."""


def range_of(op: Op, operands: list[Range]) -> Range:
    """Between which numbers the elements of a value are, NaN aside."""
    if op.is_(REGISTER):
        return float(op["value"]), float(op["value"])
    if op.is_(SIZE):
        low, high = op["extent"].low, op["extent"].high
        return -math.inf if low is None else float(low), math.inf if high is None else float(high)
    if not op.result.tile.dtype.is_float:
        return ANY
    if op.is_(SCALAR):  # which a call rounds to its type behind its check
        low, high = op.get("least", -math.inf), op.get("most", math.inf)
        return (-_rounded_up(-low), _rounded_up(high)) if op.result.tile.dtype.bits >= 32 else ANY
    if op.is_(CAST):
        (one,), dtype = operands, op.operands[0].tile.dtype
        is_wider = dtype.is_float and dtype.bits < op.result.tile.dtype.bits
        return one if is_wider or (one[0] == one[1] and (one[0] == 0 or math.isinf(one[0]))) else ANY
    if op.is_(ELEMENTWISE) and op["function"] == "where":
        _, one, other = operands
        return min(one[0], other[0]), max(one[1], other[1])
    if op.is_(ELEMENTWISE) and op["function"] == "exp":
        return 0.0, 0.0 if operands[0][1] == -math.inf else math.inf
    if not op.is_(ELEMENTWISE) or op["function"] not in MONOTONIC:
        return ANY
    results = [_at(op["function"], *point) for point in itertools.product(*operands)]
    if any(map(math.isnan, results)):
        return ANY
    low, high = min(results), max(results)
    return (low, high) if op["function"] in _EXACT else (-_rounded_up(-low), _rounded_up(high))


def _at(function: str, x: float, y: float = 0.0, z: float = 0.0) -> float:
    """One of `MONOTONIC` at a point."""
    match function:
        case "add":
            return x + y
        case "sub":
            return x - y
        case "mul":
            return x * y
        case "fma":
            return x * y + z
        case "neg":
            return -x
        case "maximum":
            return max(x, y)
        case "minimum":
            return min(x, y)
        case "floor":
            return x if math.isinf(x) else float(math.floor(x))
        case "exp2":
            return 2.0**x if x < 128 else math.inf
        case "log2":
            return math.log2(x) if x > 0 else -math.inf
        case _:
            return x**-0.5 if x > 0 else math.nan  # of -0 it is minus infinity


def _rounded_up(number: float) -> float:
    """At least what any type of at least 22 bits rounds it to."""
    if math.isinf(number):
        return number
    above = number + abs(number) * 2.0**-22
    if abs(above) < _SMALLEST:
        return max(above, 0.0)
    return math.inf if above > LARGEST else max(above, -LARGEST)
