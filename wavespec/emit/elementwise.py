"""One elementwise step in, its MLIR out; the power of two is the machine's own instruction where it has one."""

from __future__ import annotations

from collections.abc import Sequence

from wavespec.emit.mlir_text import MlirText
from wavespec.emit.registers import vector_type
from wavespec.ir.dtype import DTYPES, DType

_FLOAT = {
    "add": "arith.addf",
    "sub": "arith.subf",
    "mul": "arith.mulf",
    "div": "arith.divf",
    "neg": "arith.negf",
    "abs": "math.absf",
    "fma": "math.fma",
}
# One backend makes of arith.maximumf what loses NaN.
_EXTREMES = {"maximum": "llvm.intr.maximum", "minimum": "llvm.intr.minimum"}
# By name: IREE takes their operations for library calls, which machines have instructions for.
_INTRINSICS = {
    "floor": "llvm.floor",
    "ceil": "llvm.ceil",
    "trunc": "llvm.trunc",
    "round": "llvm.roundeven",
    "sqrt": "llvm.sqrt",
}
_INTEGER = {
    "add": "arith.addi",
    "sub": "arith.subi",
    "mul": "arith.muli",
    "quotient": "arith.divsi",
    "rest": "arith.remsi",
    "maximum": "arith.maxsi",
    "minimum": "arith.minsi",
    "and": "arith.andi",
    "or": "arith.ori",
    "xor": "arith.xori",
    "shl": "arith.shli",
    "shr": "arith.shrsi",
}
_UNSIGNED = {
    **_INTEGER,
    "quotient": "arith.divui",
    "rest": "arith.remui",
    "maximum": "arith.maxui",
    "minimum": "arith.minui",
    "shr": "arith.shrui",
}
# What a comparison is called for floating point, signed and unsigned numbers; NaN is unlike every number.
_PREDICATES = {
    "lt": ("olt", "slt", "ult"),
    "le": ("ole", "sle", "ule"),
    "eq": ("oeq", "eq", "eq"),
    "ne": ("une", "ne", "ne"),
}
_LARGEST_POWER, _SMALLEST_POWER = 129.0, -254.0  # two factors of 2⁻¹²⁷, which the bits of an exponent have 0 for
_ROUND = 1.5 * 2.0**23  # added and subtracted, it rounds an f32 to an integer, which its low bits then hold
# 2^x for -0.5 <= x <= 0.5: a minimax fit in f64, rounded to f32; off by 2e-9 at most.
_POWER = (
    1.0,
    0.6931471824645996,
    0.24022646248340607,
    0.05550328642129898,
    0.009618489071726799,
    0.0013399930903688073,
    0.0001534581242594868,
)


def elementwise(text: MlirText, function: str, names: Sequence[str], dtype: DType, size: int) -> str:
    """A step other than ``exp2`` on ``size`` elements of ``dtype``."""
    type_ = vector_type(dtype, size)
    if function in _PREDICATES:
        return compare(text, function, names[0], names[1], dtype, size)
    if function == "where":
        return select(text, names[0], names[1], names[2], vector_type(DTYPES["bool"], size), type_)
    if function == "select_less":
        condition = compare(text, "lt", names[0], names[1], dtype, size)
        return select(text, condition, names[2], names[3], vector_type(DTYPES["bool"], size), type_)
    if function == "copysign":
        return _copysign(text, names[0], names[1], dtype, size)
    if function == "neg" and not dtype.is_float:
        return text.op(f"arith.subi {text.constant(0, type_)}, {names[0]} : {type_}")
    if function in _EXTREMES and dtype.is_float:
        return text.op(f"{_EXTREMES[function]}({', '.join(names)}) : ({type_}, {type_}) -> {type_}")
    if function in _INTRINSICS:
        called = f"{_INTRINSICS[function]}.{f'v{size}' if size > 1 else ''}{dtype.name}"
        return text.op(f'llvm.call_intrinsic "{called}"({names[0]}) : ({type_}) -> {type_}')
    verbs = _FLOAT if dtype.is_float else _INTEGER if dtype.kind == "int" else _UNSIGNED
    return text.op(f"{verbs[function]} {', '.join(names)} : {type_}")


def compare(text: MlirText, function: str, left: str, right: str, dtype: DType, size: int) -> str:
    """A comparison of ``size`` elements of ``dtype``: that many flags."""
    ordered, signed, unsigned = _PREDICATES[function]
    verb = f"cmpf {ordered}" if dtype.is_float else f"cmpi {signed if dtype.kind == 'int' else unsigned}"
    return text.op(f"arith.{verb}, {left}, {right} : {vector_type(dtype, size)}")


def select(text: MlirText, condition: str, then: str, otherwise: str, flags: str, type_: str) -> str:
    """Of each element one of two, by as many ``flags``."""
    return text.op(f"arith.select {condition}, {then}, {otherwise} : {flags}, {type_}")


def _copysign(text: MlirText, name: str, sign: str, dtype: DType, size: int) -> str:
    """By bits: IREE does not take the intrinsic for every machine."""
    number, word = vector_type(dtype, size), vector_type(DTYPES[f"i{dtype.bits}"], size)
    top = 1 << (dtype.bits - 1)
    parts: list[str] = []
    for part, mask in ((name, top - 1), (sign, -top)):
        bits = text.op(f"arith.bitcast {part} : {number} to {word}")
        parts.append(text.op(f"arith.andi {bits}, {text.constant(mask, word)} : {word}"))
    bits = text.op(f"arith.ori {', '.join(parts)} : {word}")
    return text.op(f"arith.bitcast {bits} : {word} to {number}")


def power_by_polynomial(text: MlirText, name: str, size: int, *, fused: bool = True) -> str:
    """``2^x`` in f32 as ``2ⁿ · 2ᶠ``, ``n`` the nearest integer, for machines without an instruction for it; ``fused``:
    whether they have one that multiplies and adds."""
    f32, i32 = DTYPES["f32"], DTYPES["i32"]
    number, word = vector_type(f32, size), vector_type(i32, size)

    def step(function: str, *operands: str | float) -> str:
        names = [one if isinstance(one, str) else text.constant(one, number) for one in operands]
        return elementwise(text, function, names, f32, size)

    def power(exponent: str) -> str:
        """The number with this exponent, an integer from -126 to 127, whose bits it is made of; 0 for -127."""
        biased = text.op(f"arith.addi {exponent}, {text.constant(127, word)} : {word}")
        bits = text.op(f"arith.shli {biased}, {text.constant(23, word)} : {word}")
        return text.op(f"arith.bitcast {bits} : {word} to {number}")

    name = step("maximum", step("minimum", name, _LARGEST_POWER), _SMALLEST_POWER)
    shifted = step("add", name, _ROUND)
    rest = step("sub", name, step("sub", shifted, _ROUND))
    *coefficients, total = _POWER
    result: str | float = total
    for coefficient in reversed(coefficients):
        result = (
            step("fma", result, rest, coefficient) if fused else step("add", step("mul", result, rest), coefficient)
        )
    bits = text.op(f"arith.bitcast {shifted} : {number} to {word}")
    zero = text.op(f"arith.bitcast {text.constant(_ROUND, number)} : {number} to {word}")
    exponent = text.op(f"arith.subi {bits}, {zero} : {word}")
    # Two factors, because the smallest and the largest result are powers that no one number has as its exponent.
    half = text.op(f"arith.shrsi {exponent}, {text.constant(1, word)} : {word}")
    other = text.op(f"arith.subi {exponent}, {half} : {word}")
    return step("mul", step("mul", result, power(half)), power(other))
