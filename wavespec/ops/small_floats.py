"""Floating point of 8 bits and less as f32, in steps of one lane; every number and every NaN is itself again.

Formats: https://www.opencompute.org/documents/ocp-microscaling-formats-mx-v1-0-spec-final-pdf, sections 5.3 and 5.4.
"""

from __future__ import annotations

import math

from wavespec.ir.dtype import DTYPES, DType
from wavespec.ir.kernel import Value
from wavespec.ir.thread import ThreadBuilder
from wavespec.ops.steps import Steps

_U8, _I16, _I32, _F16, _F32 = (DTYPES[name] for name in ("u8", "i16", "i32", "f16", "f32"))
_FORMATS = {"f8e4m3fn": (3, 7), "f8e5m2": (2, 15), "f6e2m3fn": (3, 1), "f6e3m2fn": (2, 3), "f4e2m1fn": (1, 1)}
"""Bits of the mantissa, and the bias of the exponent."""
_SCALE = "f8e8m0fnu"
_NOT_A_NUMBER = {"f8e4m3fn": 0x7F}
"""What stands for NaN, without its sign, where f16 has a number there; f8e5m2 has NaN where f16 has it."""
_F16_MANTISSA, _F16_BIAS = 10, 15
_F32_MANTISSA, _F32_NAN, _F32_SMALLEST_SCALE = 23, 0x7FC00000, 0x00400000


def is_small_float(dtype: DType) -> bool:
    return dtype.name in _FORMATS or dtype.name == _SCALE


def small_to_f32(build: ThreadBuilder, value: Value, hint: str) -> Value:
    """The same numbers as f32.

    Exponent and mantissa become those of an f16, whose subnormal numbers every machine converts exactly; the f32 lacks
    a factor for the other bias, a power of two.
    """
    code = build.bitcast(value, _U8, hint)
    if value.vector.dtype.name == _SCALE:
        return _scale_to_f32(build, code, hint)
    mantissa, bias = _FORMATS[value.vector.dtype.name]
    sign = 1 << value.vector.dtype.bits - 1
    word = build.cast(code, _I16, hint)
    steps = Steps(build, word, hint)
    magnitude = steps("and", word, sign - 1)
    half = steps("shl", magnitude, _F16_MANTISSA - mantissa)
    flipped = steps("shl", steps("and", word, sign), 16 - value.vector.dtype.bits)
    number = build.cast(build.bitcast(steps("or", half, flipped), _F16, hint), _F32, hint)
    if bias != _F16_BIAS:
        number = Steps(build, number, hint)("mul", number, 2.0 ** (_F16_BIAS - bias))
    if (nan := _NOT_A_NUMBER.get(value.vector.dtype.name)) is not None:
        number = Steps(build, number, hint)("where", steps("eq", magnitude, nan), math.nan, number)
    return number


def _scale_to_f32(build: ThreadBuilder, code: Value, hint: str) -> Value:
    """The code is the exponent of an f32, but for the smallest power, which is subnormal there, and for NaN."""
    word = build.cast(code, _I32, hint)
    steps = Steps(build, word, hint)
    bits = steps("shl", word, _F32_MANTISSA)
    bits = steps("where", steps("eq", word, 0), _F32_SMALLEST_SCALE, bits)
    bits = steps("where", steps("eq", word, 255), _F32_NAN, bits)
    return build.bitcast(bits, _F32, hint)
