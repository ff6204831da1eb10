"""Numbers of f16 go in, those of f32 come out, and back: for machines without instructions that convert them.

Both ways are those of F16C, but that a NaN stays no more than one: https://gist.github.com/rygorous/2156668
"""

from __future__ import annotations

from wavespec.emit.elementwise import select
from wavespec.emit.mlir_text import MlirText

_SIGN, _INFINITY = 0x8000, 0x7C00
_NAN = 0x7E00
_REST_BITS = 13  # of the 23 of an f32 that an f16 has no room for
_SHIFT = 127 - 15  # of exponents
_TOO_LARGE = (127 + 16) << 23  # f32 that are none of f16, as their bits
_SMALLEST_NORMAL = (127 - 14) << 23
_ALIGNED = 126 << 23  # added to smaller ones, 1/2 leaves the bits of an f16, rounded, at the end
_INFINITE = 0xFF << 23


def half_to_float(text: MlirText, name: str, type_: str) -> str:
    """``type_``: of f16, as is the value, single or a vector."""
    short, word, number, flags = (type_.replace("f16", element) for element in ("i16", "i32", "f32", "i1"))
    bits = text.op(f"arith.bitcast {name} : {type_} to {short}")
    bits = text.op(f"arith.extui {bits} : {short} to {word}")
    size = text.op(f"arith.andi {bits}, {text.constant(_SIGN - 1, word)} : {word}")
    sign = text.op(f"arith.andi {bits}, {text.constant(_SIGN, word)} : {word}")
    sign = text.op(f"arith.shli {sign}, {text.constant(16, word)} : {word}")
    moved = text.op(f"arith.shli {size}, {text.constant(_REST_BITS, word)} : {word}")
    number_ = text.op(f"arith.bitcast {moved} : {word} to {number}")
    number_ = text.op(f"arith.mulf {number_}, {text.constant(2.0**_SHIFT, number)} : {number}")  # exact: a power of two
    finite = text.op(f"arith.bitcast {number_} : {number} to {word}")
    other = text.op(f"arith.ori {finite}, {text.constant(_INFINITE, word)} : {word}")
    below = text.op(f"arith.cmpi ult, {size}, {text.constant(_INFINITY, word)} : {word}")
    made = select(text, below, finite, other, flags, word)
    made = text.op(f"arith.ori {made}, {sign} : {word}")
    return text.op(f"arith.bitcast {made} : {word} to {number}")


def float_to_half(text: MlirText, name: str, type_: str) -> str:
    """To the nearest, to the even one of two; ``type_``: of f32, as is the value, single or a vector."""
    short, word, half, flags = (type_.replace("f32", element) for element in ("i16", "i32", "f16", "i1"))
    bits = text.op(f"arith.bitcast {name} : {type_} to {word}")
    size = text.op(f"arith.andi {bits}, {text.constant((1 << 31) - 1, word)} : {word}")
    sign = text.op(f"arith.shrui {bits}, {text.constant(16, word)} : {word}")
    sign = text.op(f"arith.andi {sign}, {text.constant(_SIGN, word)} : {word}")

    small = text.op(f"arith.bitcast {size} : {word} to {type_}")
    small = text.op(f"arith.addf {small}, {text.constant(0.5, type_)} : {type_}")
    small = text.op(f"arith.bitcast {small} : {type_} to {word}")
    small = text.op(f"arith.subi {small}, {text.constant(_ALIGNED, word)} : {word}")

    odd = text.op(f"arith.shrui {size}, {text.constant(_REST_BITS, word)} : {word}")
    odd = text.op(f"arith.andi {odd}, {text.constant(1, word)} : {word}")
    almost = (1 << (_REST_BITS - 1)) - 1 - (_SHIFT << 23)
    normal = text.op(f"arith.addi {size}, {text.constant(almost, word)} : {word}")
    normal = text.op(f"arith.addi {normal}, {odd} : {word}")
    normal = text.op(f"arith.shrui {normal}, {text.constant(_REST_BITS, word)} : {word}")

    # As signed numbers, which SSE compares: none of these is negative.
    is_small = text.op(f"arith.cmpi slt, {size}, {text.constant(_SMALLEST_NORMAL, word)} : {word}")
    is_nan = text.op(f"arith.cmpi sgt, {size}, {text.constant(_INFINITE, word)} : {word}")
    is_finite = text.op(f"arith.cmpi slt, {size}, {text.constant(_TOO_LARGE, word)} : {word}")
    nan, infinity = (text.constant(one, word) for one in (_NAN, _INFINITY))
    made = select(text, is_small, small, normal, flags, word)
    beyond = select(text, is_nan, nan, infinity, flags, word)
    made = select(text, is_finite, made, beyond, flags, word)
    made = text.op(f"arith.ori {made}, {sign} : {word}")
    made = text.op(f"arith.trunci {made} : {word} to {short}")
    return text.op(f"arith.bitcast {made} : {short} to {half}")
