"""Bytes that elements share in, each element in a byte of its own out: integers with their sign, others as bits."""

from __future__ import annotations

from wavespec.emit.mlir_text import MlirText
from wavespec.ir.dtype import DType


def unpack(text: MlirText, name: str, dtype: DType, elements: int, shift: str) -> str:
    """The elements that begin at the first bit of some bytes; of one element, at the bit ``shift`` of the first byte.

    Args:
        name: the bytes, as many as the elements touch; of one element of a type that may cross the end of a byte, two.
        shift: SSA name of an ``i32``.
    """
    made = _element(text, name, dtype, shift) if elements == 1 else _elements(text, name, dtype, elements)
    type_ = f"vector<{elements}xi8>" if elements > 1 else "i8"
    made = text.op(f"arith.andi {made}, {text.constant(2**dtype.bits - 1, type_)} : {type_}")
    if dtype.kind != "int":
        return made
    sign = text.constant(2 ** (dtype.bits - 1), type_)
    made = text.op(f"arith.xori {made}, {sign} : {type_}")
    return text.op(f"arith.subi {made}, {sign} : {type_}")


def _element(text: MlirText, name: str, dtype: DType, shift: str) -> str:
    if 8 % dtype.bits == 0:
        word = text.op(f"arith.extui {name} : i8 to i32")
    else:
        low, high = (text.op(f"vector.extract {name}[{place}] : i8 from vector<2xi8>") for place in (0, 1))
        low, high = (text.op(f"arith.extui {part} : i8 to i32") for part in (low, high))
        high = text.op(f"arith.shli {high}, {text.constant(8, 'i32')} : i32")
        word = text.op(f"arith.ori {low}, {high} : i32")
    return text.op(f"arith.trunci {text.op(f'arith.shrui {word}, {shift} : i32')} : i32 to i8")


def _elements(text: MlirText, name: str, dtype: DType, elements: int) -> str:
    """Every element takes the byte that it begins in, and that which it ends in; vectors of shifts do the rest."""
    bytes_, starts = elements * dtype.bits // 8, [number * dtype.bits for number in range(elements)]
    whole, type_ = f"vector<{bytes_}xi8>", f"vector<{elements}xi8>"
    if bytes_ == 1:
        name, whole = text.op(f"vector.broadcast {name} : i8 to vector<1xi8>"), "vector<1xi8>"

    def taken(bits: list[int]) -> str:
        return text.op(f"vector.shuffle {name}, {name} {[bit // 8 for bit in bits]} : {whole}, {whole}")

    def shifted(verb: str, value: str, by: list[int]) -> str:
        shifts = text.op(f"arith.constant dense<{by}> : {type_}")
        return text.op(f"arith.{verb} {value}, {shifts} : {type_}")

    low = shifted("shrui", taken(starts), [bit % 8 for bit in starts])
    if 8 % dtype.bits == 0:
        return low
    # What ends in the byte that it begins in would come again in higher bits, which are cut off.
    ends = taken([bit + dtype.bits - 1 for bit in starts])
    high = shifted("shli", ends, [8 - bit % 8 if bit % 8 + dtype.bits > 8 else 7 for bit in starts])
    return text.op(f"arith.ori {low}, {high} : {type_}")
