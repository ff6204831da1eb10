"""A vector of f32 goes in; the MLIR of two to its power comes out, for machines whose instructions take the fraction of
a number and multiply by powers of two."""

from __future__ import annotations

from wavespec.emit.mlir_text import MlirText
from wavespec.emit.registers import vector_type
from wavespec.ir.dtype import DTYPES
from wavespec.targets.machine import Machine

# 2^x for 0 <= x <= 1, exact at 0: a minimax fit in f64, rounded to f32; off by 2.2e-9 at most, 0.51 units of the last
# place as it is computed.
_POWER = (
    1.0,
    0.6931470632553101,
    0.24022908508777618,
    0.05548618361353874,
    0.009673775173723698,
    0.0012482289457693696,
    0.000215659718378447,
)
# https://www.intel.com/content/www/us/en/docs/intrinsics-guide/index.html#text=_mm512_reduce_ps: down, without a flag of
# inexact numbers; of an infinite one it is 0.
_DOWN = 0b1001
_AS_SET = 4
"""Rounding that the processor is set to."""
_SMALLEST = -150.0
"""What is less is 0, and is not computed: a result that is too small for its type takes a hundred cycles."""


def power_by_scaling(text: MlirText, name: str, size: int, machine: Machine) -> str:
    """``2^f · 2^(x - f)``, ``f`` the fraction of ``x``: nothing is left to do for numbers that are too large, too small
    or none.  Fewer elements than a register has are computed with as many."""
    f32 = DTYPES["f32"]
    width = machine.vector_bytes // f32.bytes
    type_, every = vector_type(f32, width), f"i{width}"
    x = name if size == width else _widened(text, name, size, width)
    none, all_ = text.constant(0, type_), text.constant(-1, every)
    down, as_set = text.constant(_DOWN, "i32"), text.constant(_AS_SET, "i32")
    types = f"({type_}, i32, {type_}, {every}, i32) -> {type_}"
    rest = text.op(f'llvm.call_intrinsic "{machine.fraction}"({x}, {down}, {none}, {all_}, {as_set}) : {types}')
    *coefficients, last = _POWER
    result = text.constant(last, type_)
    for coefficient in reversed(coefficients):
        result = text.op(f"math.fma {result}, {rest}, {text.constant(coefficient, type_)} : {type_}")
    result = _scaled(text, result, x, width, machine)
    return result if size == width else _narrowed(text, result, size, width)


def times_power(text: MlirText, near: str, whole: str, size: int, machine: Machine) -> str:
    """``near · 2^whole``, rounded once; 0 where the power is too small for any f32."""
    width = machine.vector_bytes // DTYPES["f32"].bytes
    if size == width:
        return _scaled(text, near, whole, width, machine)
    near, whole = (_widened(text, one, size, width) for one in (near, whole))
    return _narrowed(text, _scaled(text, near, whole, width, machine), size, width)


def _scaled(text: MlirText, near: str, power: str, width: int, machine: Machine) -> str:
    """``near`` times two to the power of what is whole of ``power``."""
    type_, every = vector_type(DTYPES["f32"], width), f"i{width}"
    flags = text.op(f"arith.cmpf uge, {power}, {text.constant(_SMALLEST, type_)} : {type_}")
    flags = text.op(f"vector.bitcast {flags} : vector<{width}xi1> to vector<1x{every}>")
    wanted = text.op(f"vector.extract {flags}[0] : {every} from vector<1x{every}>")
    none, as_set = text.constant(0, type_), text.constant(_AS_SET, "i32")
    types = f"({type_}, {type_}, {type_}, {every}, i32) -> {type_}"
    return text.op(
        f'llvm.call_intrinsic "{machine.times_power}"({near}, {power}, {none}, {wanted}, {as_set}) : {types}'
    )


def _widened(text: MlirText, name: str, size: int, width: int) -> str:
    """The elements, and the first of them again."""
    f32 = DTYPES["f32"]
    if size == 1:
        return text.op(f"vector.broadcast {name} : {vector_type(f32, 1)} to {vector_type(f32, width)}")
    taken, type_ = [*range(size), *[0] * (width - size)], vector_type(f32, size)
    return text.op(f"vector.shuffle {name}, {name} {taken} : {type_}, {type_}")


def _narrowed(text: MlirText, name: str, size: int, width: int) -> str:
    type_ = vector_type(DTYPES["f32"], width)
    if size == 1:
        return text.op(f"vector.extract {name}[0] : f32 from {type_}")
    return text.op(f"vector.shuffle {name}, {name} {[*range(size)]} : {type_}, {type_}")
