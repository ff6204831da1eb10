"""Bytes of small integers go in; the same numbers as pairs of a floating point type come out, by their bits."""

from __future__ import annotations

from wavespec.emit.mlir_text import MlirText
from wavespec.emit.registers import mlir_type
from wavespec.ir.dtype import DType

_HALF_BITS = 16


def has_codes(before: DType, after: DType) -> bool:
    """Whether pairs of numbers of four bits have a form in which they are the last bits of a number of 16."""
    return before.name == "i4" and after.is_float and after.bits == _HALF_BITS


def decoded_pair(text: MlirText, byte: str, after: DType) -> str:
    """Two i4 that share a byte, as a vector of two numbers.

    A number from 2^m on, m the bits of the mantissa, has whole numbers in these bits: with its sign bit turned over, an
    i4 is there what it is plus 8.
    """
    first = ((1 << (after.bits - 2 - after.mantissa)) - 1 + after.mantissa << after.mantissa) + 8
    offset = (1 << after.mantissa) + 8.0
    word = text.op(f"arith.extui {byte} : i8 to i32")
    spread = text.op(f"arith.muli {word}, {text.constant(1 + (1 << 12), 'i32')} : i32")  # the upper four bits at 16
    codes = text.op(f"arith.andi {spread}, {text.constant(0x000F000F, 'i32')} : i32")
    bits = text.op(f"arith.xori {codes}, {text.constant(first << _HALF_BITS | first, 'i32')} : i32")
    pair = f"vector<2x{mlir_type(after)}>"
    numbers = text.op(f"llvm.bitcast {bits} : i32 to {pair}")
    return text.op(f"llvm.fsub {numbers}, {text.constant(offset, pair)} : {pair}")
