"""Pairs and words of numbers of four bits go in; the same numbers as pairs of a floating point type come out, by their
bits or from a table."""

from __future__ import annotations

from collections.abc import Callable
from math import frexp

from wavespec.emit.mlir_text import MlirText
from wavespec.emit.registers import mlir_type
from wavespec.ir.dtype import DType

_HALF_BITS = 16
_SPREAD = 1 + (1 << 12)
"""A byte times this has its upper four bits from bit 16 on as well."""


def has_codes(before: DType, after: DType) -> bool:
    """Whether bits of the one type are made those of the other, of 16 bits each."""
    return before.name in ("i4", "f4e2m1fn") and after.is_float and after.bits == _HALF_BITS


def byte_of(text: MlirText, pair: str) -> str:
    """The byte that two codes share, from a vector of a byte for each."""
    first, second = (text.op(f"vector.extract {pair}[{place}] : i8 from vector<2xi8>") for place in (0, 1))
    first = text.op(f"arith.andi {first}, {text.constant(15, 'i8')} : i8")
    second = text.op(f"arith.shli {second}, {text.constant(4, 'i8')} : i8")
    return text.op(f"arith.ori {first}, {second} : i8")


CODES = 0x000F000F
"""Where the codes of both are in a word that has one in each half."""


def decoded_pair(text: MlirText, byte: str, before: DType, after: DType, codes: str) -> str:
    """Two elements that share a byte, as a vector of two numbers; ``codes``: `CODES` in a register, since instructions
    on three words take one of them as a number."""
    word = text.op(f"arith.extui {byte} : i8 to i32")
    return _integers(text, word, after, codes) if before.kind == "int" else _floats(text, word, before, after)


def has_table(before: DType, after: DType) -> bool:
    """Whether numbers of the one type are found in a table of the bytes of the other."""
    return has_codes(before, after) and before.is_float


_MAGNITUDES = 0x77777777
"""All codes of a word but their signs."""
_SIGNS = (0xD9C8, 0xFBEA)
"""By the half of a word: picks, of the word four bits further up and the word, the sign bit of each code for a byte."""
_PAIRS = (0x5140, 0x7362)
"""Pick bytes of the lower ones and the upper ones of four numbers in turns, for the first and for the last two."""


def decoded_words(text: MlirText, word: str, before: DType, after: DType, kept: Callable[[int], str]) -> list[str]:
    """The eight elements of a word, in order, as four vectors of two numbers: a code is the place of the bytes of its
    number among eight, which one instruction picks for four codes, signs aside; ``kept``: a number in a register."""
    whole, up = (text.op(f"arith.{verb} {word}, {text.constant(number, 'i32')} : i32") for verb, number in _APART)
    tables = [(kept(low), kept(high)) for low, high in (_table(before, after, byte) for byte in (0, 1))]
    found = list[str]()
    for half, signs in enumerate(_SIGNS):
        places = text.op(f"arith.shrui {whole}, {text.constant(_HALF_BITS, 'i32')} : i32") if half else whole
        lower, upper = (picked(text, low, high, places) for low, high in tables)
        sign = picked(text, up, word, text.constant(signs, "i32"))
        sign = text.op(f"arith.andi {sign}, {text.constant(0x80808080 - (1 << 32), 'i32')} : i32")
        upper = text.op(f"arith.ori {upper}, {sign} : i32")
        found += [picked(text, lower, upper, text.constant(pair, "i32")) for pair in _PAIRS]
    return [text.op(f"llvm.bitcast {one} : i32 to vector<2x{mlir_type(after)}>") for one in found]


def decoded_integers(text: MlirText, word: str, before: DType, after: DType, kept: Callable[[int], str]) -> list[str]:
    """The same of whole numbers: one instruction picks the byte of a pair from the word, and from the word four bits
    further down, for the other half."""
    down = text.op(f"arith.shrui {word}, {text.constant(before.bits, 'i32')} : i32")
    pairs = (picked(text, word, down, text.constant(_FIRST_PICK + _NEXT_PICK * place, "i32")) for place in range(4))
    return [_offset(text, one, after, kept(CODES)) for one in pairs]


_FIRST_PICK, _NEXT_PICK = 0x4400, 0x1111
"""Of four bits for each byte that is picked: which of the eight of two words, for the first pair, and by how much further
for each other one."""
_APART = (("andi", _MAGNITUDES), ("shli", 4))


def picked(text: MlirText, low: str, high: str, places: str) -> str:
    """Four of the bytes of two words, each place in four bits; with the highest set, their sign bit in all bits.
    https://docs.nvidia.com/cuda/parallel-thread-execution/#data-movement-and-conversion-instructions-prmt"""
    return text.op(f'llvm.call_intrinsic "llvm.nvvm.prmt"({low}, {high}, {places}) : (i32, i32, i32) -> i32')


def _table(before: DType, after: DType, byte: int) -> tuple[int, int]:
    """One byte of the numbers that the codes without a sign stand for, in two words."""
    codes = [encoded(code, before, after) >> 8 * byte & 255 for code in range(1 << before.bits - 1)]
    return int.from_bytes(codes[:4], "little"), int.from_bytes(codes[4:], "little")


def encoded(code: int, before: DType, after: DType) -> int:
    """The bits in ``after`` of what a code stands for, a subnormal or a normal number."""
    exponent, fraction = divmod(code, 1 << before.mantissa)
    number = (fraction + (min(exponent, 1) << before.mantissa)) * 2.0 ** (
        max(exponent, 1) - before.bias - before.mantissa
    )
    part, power = frexp(number)
    return int(part * 2 * (1 << after.mantissa)) + (power - 2 + _bias(after) << after.mantissa) if number else 0


def _integers(text: MlirText, word: str, after: DType, codes: str) -> str:
    """A number from 2^m on, m the bits of the mantissa, has whole numbers in its last bits: with its sign bit turned
    over, an i4 is there what it is plus 8."""
    spread = text.op(f"arith.muli {word}, {text.constant(_SPREAD, 'i32')} : i32")
    return _offset(text, spread, after, codes)


def _offset(text: MlirText, spread: str, after: DType, codes: str) -> str:
    first = (_bias(after) + after.mantissa << after.mantissa) + 8
    codes = text.op(f"arith.andi {spread}, {codes} : i32")
    bits = text.op(f"arith.xori {codes}, {text.constant(first << _HALF_BITS | first, 'i32')} : i32")
    return _computed(text, "fsub", bits, (1 << after.mantissa) + 8.0, after)


def _floats(text: MlirText, word: str, before: DType, after: DType) -> str:
    """Exponent and mantissa take the places that they have in the other type, which lacks a factor for its bias; numbers
    that are subnormal stay so until then."""
    magnitude = after.mantissa - before.mantissa
    number = _bits(text, word, magnitude, (1 << before.bits - 1) - 1)
    sign = _bits(text, word, _HALF_BITS - before.bits, 1 << before.bits - 1)
    bits = text.op(f"arith.ori {number}, {sign} : i32")
    return _computed(text, "fmul", bits, 2.0 ** (_bias(after) - before.bias), after)


def _bias(dtype: DType) -> int:
    return (1 << _HALF_BITS - 2 - dtype.mantissa) - 1


def _bits(text: MlirText, word: str, place: int, mask: int) -> str:
    """Bits of both codes, ``place`` bits further up in each half."""
    factor = _SPREAD << place
    spread = text.op(f"arith.muli {word}, {text.constant(factor, 'i32')} : i32")
    wanted = mask << place
    wanted |= wanted << _HALF_BITS
    wanted -= 1 << 32 if wanted >> 31 else 0
    return text.op(f"arith.andi {spread}, {text.constant(wanted, 'i32')} : i32")


def _computed(text: MlirText, verb: str, bits: str, number: float, after: DType) -> str:
    pair = f"vector<2x{mlir_type(after)}>"
    numbers = text.op(f"llvm.bitcast {bits} : i32 to {pair}")
    return text.op(f"llvm.{verb} {numbers}, {text.constant(number, pair)} : {pair}")
