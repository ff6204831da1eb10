"""Floating point of 8 bits and less as f32, in steps of one lane; every number and every NaN is itself again. And f32
as any of these types, rounded to the nearest of its numbers, of two as near to the even one.

Formats: https://www.opencompute.org/documents/ocp-microscaling-formats-mx-v1-0-spec-final-pdf, sections 5.3 and 5.4.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

from wavespec.ir.dtype import DTYPES, DType
from wavespec.ir.kernel import Value
from wavespec.ir.thread import ThreadBuilder
from wavespec.ops.steps import Steps
from wavespec.targets.machine import Machine

if TYPE_CHECKING:
    import torch

_U8, _I16, _I32, _F16, _F32 = (DTYPES[name] for name in ("u8", "i16", "i32", "f16", "f32"))
_FORMATS = {
    name: (DTYPES[name].mantissa, DTYPES[name].bias)
    for name in ("f8e4m3fn", "f8e5m2", "f6e2m3fn", "f6e3m2fn", "f4e2m1fn")
}
"""Bits of the mantissa, and the bias of the exponent."""
_SCALE = "f8e8m0fnu"
_PAIR = 2
_NOT_A_NUMBER = {"f8e4m3fn": 0x7F}
"""What stands for NaN, without its sign, where f16 has a number there; f8e5m2 has NaN where f16 has it."""
_F16_MANTISSA, _F16_BIAS = 10, 15
_F32_MANTISSA, _F32_BIAS, _F32_INFINITY = 23, 127, 0x7F800000
_F32_NAN, _F32_SMALLEST_SCALE = 0x7FC00000, 0x00400000


def is_small_float(dtype: DType) -> bool:
    return dtype.name in _FORMATS or dtype.name == _SCALE


def converted(
    build: ThreadBuilder, value: Value, dtype: DType, machine: Machine, hint: str = "cast", bias: int = 0
) -> Value:
    """The numbers in another type, whatever of the two has 8 bits or less."""
    if value.vector.dtype == dtype and not bias:
        return value
    if is_small_float(value.vector.dtype) and not _has_instruction(value, machine):
        value = small_to_f32(build, value, hint, is_alone=machine.lanes == 1)
    if is_written(dtype):
        wide = build.cast(value, _F32, hint)
        in_pairs = dtype.name in machine.narrowed_pairs and value.vector.elements % _PAIR == 0
        return build.cast(wide, dtype, hint) if in_pairs else f32_to_small(build, wide, dtype, hint)
    return build.cast(value, dtype, hint, bias)


def _has_instruction(value: Value, machine: Machine) -> bool:
    """Whether the machine makes f32 of elements itself, by way of f16, which has all of their numbers."""
    return value.vector.dtype.name in machine.widened_pairs and value.vector.elements % _PAIR == 0


def small_to_f32(build: ThreadBuilder, value: Value, hint: str, *, is_alone: bool = False) -> Value:
    """The same numbers as f32; ``is_alone``: on machines that make a scale of several elements by whole numbers, once.

    Exponent and mantissa become those of an f16, whose subnormal numbers every machine converts exactly; the f32 lacks
    a factor for the other bias, a power of two.
    """
    code = build.bitcast(value, _U8, hint)
    if value.vector.dtype.name == _SCALE:
        return (_scale_to_f32_by_bits if is_alone else _scale_to_f32)(build, code, hint)
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


def _scale_to_f32_by_bits(build: ThreadBuilder, code: Value, hint: str) -> Value:
    """The same with one comparison: what 0 and 255 lack is one bit, whose place is the same in both."""
    word = build.cast(code, _I32, hint)
    steps = Steps(build, word, hint)
    is_outer = steps("eq", steps("and", steps("add", word, 1), 0xFE), 0)
    outer = steps("where", is_outer, _F32_SMALLEST_SCALE, 0)
    return build.bitcast(steps("or", steps("shl", word, _F32_MANTISSA), outer), _F32, hint)


@dataclass(frozen=True, slots=True)
class _Format:
    """What numbers of a type look like; ``beyond``: the code of what is too large, ``nan``: that of NaN, without signs.

    ``one_zero``: there is no -0, whose code is that of NaN.
    """

    mantissa: int
    bias: int
    beyond: int
    nan: int | None
    one_zero: bool = False

    @property
    def largest(self) -> float:
        """The largest number of a type without infinity and NaN."""
        exponent, fraction = divmod(self.beyond, 1 << self.mantissa)
        return (1 + fraction / (1 << self.mantissa)) * 2.0 ** (exponent - self.bias)


_WRITTEN = {
    "f8e4m3fn": _Format(3, 7, 0x7E, 0x7F),
    "f8e5m2": _Format(2, 15, 0x7C, 0x7F),  # infinity
    "f8e4m3fnuz": _Format(3, 8, 0x80, 0x80, one_zero=True),
    "f8e5m2fnuz": _Format(2, 16, 0x80, 0x80, one_zero=True),
    # Without NaN, which becomes the largest number, as PTX has it for `cvt.satfinite`:
    # https://docs.nvidia.com/cuda/parallel-thread-execution/#data-movement-and-conversion-instructions-cvt
    "f6e2m3fn": _Format(3, 1, 0x1F, None),
    "f6e3m2fn": _Format(2, 3, 0x1F, None),
    "f4e2m1fn": _Format(1, 1, 0x07, None),
}


def is_written(dtype: DType) -> bool:
    """Whether `f32_to_small` makes numbers of the type."""
    return dtype.name in _WRITTEN or dtype.name == _SCALE


def f32_to_small(build: ThreadBuilder, value: Value, dtype: DType, hint: str) -> Value:
    """The nearest numbers of ``dtype``, of a scale the nearest power of two whatever the sign."""
    bits = build.bitcast(value, _I32, hint)
    steps = Steps(build, bits, hint)
    magnitude = steps("and", bits, 0x7FFFFFFF)
    if dtype.name == _SCALE:
        code = _nearest_scale(steps, magnitude)
    else:
        code = _nearest(steps, magnitude, bits, _WRITTEN[dtype.name], 1 << dtype.bits - 1)
    return build.bitcast(build.cast(code, _U8, hint), dtype, hint)


def _nearest(steps: Steps, magnitude: Value, bits: Value, format: _Format, sign: int) -> Value:
    """Normal numbers lose bits of their mantissa; among the subnormal ones an addition rounds: it is to a number
    whose last place is the smallest of them."""
    lost, smallest = _F32_MANTISSA - format.mantissa, _F32_BIAS + 1 - format.bias
    half = steps("add", steps("and", steps("shr", magnitude, lost), 1), (1 << lost - 1) - 1)
    normal = steps("shr", steps("add", magnitude, half), lost)
    normal = steps("sub", normal, _F32_BIAS - format.bias << format.mantissa)
    large = 2.0 ** (smallest - _F32_BIAS + lost)
    total = steps("add", steps.bits(magnitude, "f32"), large)
    few = steps("sub", steps.bits(total, "i32"), int.from_bytes(struct.pack(">f", large)))
    code = steps("where", steps("lt", magnitude, smallest << _F32_MANTISSA), few, normal)
    code = steps("minimum", code, format.beyond)
    is_nan = steps("lt", _F32_INFINITY, magnitude)
    flag = steps("and", steps("shr", bits, 32 - sign.bit_length()), sign)
    if format.one_zero:
        flag = steps("where", steps("eq", code, 0), 0, flag)
    if format.nan is None:
        flag = steps("where", is_nan, 0, flag)
    nan = format.beyond if format.nan is None else format.nan
    return steps("or", steps("where", is_nan, nan, code), flag)


def _nearest_scale(steps: Steps, magnitude: Value) -> Value:
    """Half way between two powers it is the larger one, but for the smallest two; infinity is NaN, as torch has it."""
    exponent = steps("shr", magnitude, _F32_MANTISSA)
    fraction = steps("and", magnitude, (1 << _F32_MANTISSA) - 1)
    least = steps("where", steps("eq", exponent, 0), _F32_SMALLEST_SCALE + 1, _F32_SMALLEST_SCALE)
    upward = steps("add", exponent, 1)
    rounded = steps("where", steps("le", least, fraction), upward, exponent)
    return steps("minimum", rounded, 255)


def nearest(tensor: torch.Tensor, dtype: str) -> torch.Tensor:
    """The same on whole tensors: the numbers of ``dtype`` that are nearest to those of f32, as f32."""
    import torch

    if not DTYPES[dtype].is_packed:
        return tensor.float().to(getattr(torch, f"float8_{dtype[2:]}")).float()
    format = _WRITTEN[dtype]
    number = tensor.float().double().nan_to_num(nan=format.largest).clamp(-2 * format.largest, 2 * format.largest)
    exponent = torch.frexp(number).exponent - 1
    step = torch.exp2(exponent.clamp(min=1 - format.bias).double() - format.mantissa)
    return ((number / step).round() * step).clamp(-format.largest, format.largest).float()
