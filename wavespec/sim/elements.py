"""Element types in, numpy arrays of them out: dtypes, poison, bit patterns and conversions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from wavespec.ir.dtype import DType

Array = npt.NDArray[Any]
Integers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

_BITS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
_LARGEST_F8 = 448.0


def numpy_dtype(dtype: DType) -> np.dtype[Any]:
    """The numpy type of one element; bf16 is the one of ``ml_dtypes``."""
    return np.dtype(dtype.number)


def poisoned(dtype: DType, elements: int) -> Array:
    """Memory that nobody wrote: NaN, or the largest integer, so that using it shows."""
    if dtype.is_float:
        return np.full(elements, np.nan, numpy_dtype(dtype))
    if dtype.kind == "bool":
        return np.ones(elements, np.bool_)
    return np.full(elements, ml_dtypes.iinfo(numpy_dtype(dtype)).max, numpy_dtype(dtype))


def some(flags: Flags) -> bool:
    """Whether any is set; of so few, `any` of numpy takes three times as long."""
    return bool(np.count_nonzero(flags))


def all_of(flags: Flags) -> bool:
    """Whether all are set; as `some`."""
    return np.count_nonzero(flags) == flags.size


def bits(values: Array) -> Array:
    """The bit patterns, so that NaN equals itself and -0.0 differs from 0.0."""
    return np.ascontiguousarray(values).view(_BITS[values.dtype.itemsize])


def cut_to(values: Array, kept: int) -> Array:
    """Only the ``kept`` upper bits of each element."""
    words = bits(values)
    return (words & ~words.dtype.type((1 << 8 * values.dtype.itemsize - kept) - 1)).view(values.dtype)


def rounded_to(values: Array, kept: int) -> Array:
    """The nearest number of so many bits, halves away from zero."""
    words = bits(values)
    return cut_to((words + words.dtype.type(1 << 8 * values.dtype.itemsize - kept - 1)).view(values.dtype), kept)


def _exp2(x: Array) -> Array:
    return np.exp2(x.astype(np.float64))


def _tanh(x: Array) -> Array:
    return np.tanh(x.astype(np.float64))


def _fma(a: Array, b: Array, c: Array) -> Array:
    """Of f32 the product is exact in f64, and the sum is rounded twice, which shows in about one of 2^28 results; of
    f64 the product is kept in two numbers, of factors from 1/2 to 1, whose parts neither overflow nor vanish."""
    if a.dtype == np.float32:
        return a.astype(np.float64) * b.astype(np.float64) + c.astype(np.float64)
    plain = a * b + c
    (a, a_power), (b, b_power) = np.frexp(a), np.frexp(b)
    power = a_power + b_power
    c = np.ldexp(c, -power)
    product = a * b
    (a_high, a_low), (b_high, b_low) = _halves(a), _halves(b)
    lost = ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low
    total = product + c
    other = total - product
    lost = lost + ((product - (total - other)) + (c - other))
    return np.where(np.isfinite(lost), np.ldexp(total + lost, power), plain)


def _halves(x: Array) -> tuple[Array, Array]:
    """Two numbers of half as many digits, whose products are exact."""
    large = x * (2.0**27 + 1)
    high = large - (large - x)
    return high, x - high


def _select_less(a: Array, b: Array, c: Array, d: Array) -> Array:
    return np.where(a < b, c, d)


def _quotient(a: Array, b: Array) -> Array:
    """Of whole numbers, rounded towards 0."""
    return (a - np.fmod(a, b)) // b


def _times_power(near: Array, whole: Array) -> Array:
    """0 of powers that no f32 has, whatever is multiplied; in f64, so that it is rounded once."""
    with np.errstate(all="ignore"):
        return np.where(whole < -150, 0.0, near.astype(np.float64) * np.exp2(whole.astype(np.float64))).astype(
            near.dtype
        )


def _rsqrt(x: Array) -> Array:
    with np.errstate(all="ignore"):
        return (1 / np.sqrt(x.astype(np.float64))).astype(x.dtype)


def _extreme(numpys: Callable[[Array, Array], Array], *, largest: bool) -> Callable[[Array, Array], Array]:
    """The larger or the smaller one, -0 below 0 as for machines, whose lanes agree on it; numpy takes either."""

    def extreme(a: Array, b: Array) -> Array:
        chosen = numpys(a, b)
        if chosen.dtype.kind in "iub":
            return chosen
        return np.where((a == b) & (np.signbit(a) == largest), b, np.where(a == b, a, chosen))

    return extreme


_maximum, _minimum = _extreme(np.maximum, largest=True), _extreme(np.minimum, largest=False)

_FUNCTIONS: dict[str, Callable[..., Array]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "ratio": np.divide,
    "quotient": _quotient,
    "rest": np.fmod,
    "maximum": _maximum,
    "minimum": _minimum,
    "fmax": _extreme(np.fmax, largest=True),
    "fmin": _extreme(np.fmin, largest=False),
    "neg": np.negative,
    "abs": np.abs,
    "copysign": np.copysign,
    "floor": np.floor,
    "ceil": np.ceil,
    "trunc": np.trunc,
    "round": np.rint,
    "sqrt": np.sqrt,
    "rsqrt": _rsqrt,
    "exp2": _exp2,
    "times_power": _times_power,
    "tanh": _tanh,
    "fma": _fma,
    "lt": np.less,
    "le": np.less_equal,
    "eq": np.equal,
    "ne": np.not_equal,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "shl": np.left_shift,
    "shr": np.right_shift,
    "where": np.where,
    "select_less": _select_less,
}


_UPDATES: dict[str, Callable[[Any, Any], Any]] = {
    "add": np.add,
    "maximum": _maximum,
    "minimum": _minimum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "exchange": lambda held, value: value,
}


def elementwise(function: str, operands: Sequence[Array]) -> Array:
    """One step on every element, rounded to the type of the operands, or bool; integers wrap round.

    Of overflow, and of numbers that have no result, numpy warns unless it is told not to.
    """
    result = _FUNCTIONS[function](*operands)
    return result if result.dtype == np.bool_ else result.astype(operands[-1].dtype, copy=False)


def combined(function: str, memory: Array, where: Integers, values: Array, expected: Array | None) -> Array:
    """Each element of flat memory that `where` names becomes the function of it and its value, one after the other.

    Where something is `expected`, the value replaces that alone.

    Returns:
        What each was before.
    """
    old = np.empty_like(values)
    with np.errstate(all="ignore"):
        for number, (place, value) in enumerate(zip(where, values, strict=True)):
            old[number] = memory[place]
            if expected is None:
                memory[place] = _UPDATES[function](memory[place], value)
            elif memory[place] == expected[number]:
                memory[place] = value
    return old


def joined(function: str, values: Array) -> Array:
    """Each row joined to one element, halves with halves, as machines do it."""
    while (count := values.shape[1]) > 1:
        half = count // 2
        rest = values[:, 2 * half :]
        values = np.concatenate([elementwise(function, [values[:, :half], values[:, half : 2 * half]]), rest], axis=1)
    return values


def converted(values: Array, dtype: DType) -> Array:
    """The values in another type: rounded to nearest even, truncated to integers, non-zero to true."""
    target = numpy_dtype(dtype)
    if dtype.kind == "bool":
        return values != values.dtype.type(0)
    with np.errstate(all="ignore"):
        if dtype.name == "bf16" and values.dtype.kind in "iu":
            return values.astype(np.float32).astype(target)
        if dtype.name == "f8e4m3fn":  # without infinity: what is too large becomes the largest number
            values = np.clip(values, -_LARGEST_F8, _LARGEST_F8)
        return values.astype(target)
