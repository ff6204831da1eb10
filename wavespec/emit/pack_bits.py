"""Elements, each in a byte of its own, in, the bytes that they share out: the other way round than `unpack`."""

from __future__ import annotations

from wavespec.emit.mlir_text import MlirText
from wavespec.ir.dtype import DType


def pack_bits(text: MlirText, name: str, dtype: DType, elements: int) -> str:
    """The bytes that elements fill, the first in the lowest bits: every byte takes what it has of two of them.

    Args:
        name: the elements, a whole number of groups.
    """
    bytes_ = elements * dtype.bits // 8
    source, type_ = f"vector<{elements}xi8>", f"vector<{bytes_}xi8>"
    if dtype.kind == "int":  # the sign is in the bits above, too
        name = text.op(f"arith.andi {name}, {text.constant(2**dtype.bits - 1, source)} : {source}")
    begins = [8 * byte // dtype.bits for byte in range(bytes_)]

    def part(numbers: list[int], verb: str, shifts: list[int]) -> str:
        taken = text.op(f"vector.shuffle {name}, {name} {numbers} : {source}, {source}")
        return text.op(f"arith.{verb} {taken}, {text.op(f'arith.constant dense<{shifts}> : {type_}')} : {type_}")

    low = part(begins, "shrui", [8 * byte - first * dtype.bits for byte, first in enumerate(begins)])
    high = part(
        [first + 1 for first in begins],
        "shli",
        [(first + 1) * dtype.bits - 8 * byte for byte, first in enumerate(begins)],
    )
    made = text.op(f"arith.ori {low}, {high} : {type_}")
    return made if bytes_ > 1 else text.op(f"vector.extract {made}[0] : i8 from vector<1xi8>")
