"""How many elements of a vector are not there in front, and how many there are at most, go in; the mask of the others comes
out."""

from __future__ import annotations

from wavespec.emit.mlir_text import MlirText

_WORD_BITS = 64


def elements_between(text: MlirText, front: str, count: str, size: int, *, masks_are_vectors: bool) -> str:
    """SSA name of ``size`` bits: elements from ``front`` on, of the first ``count``, both from 0 to ``size``.

    Where a mask is a register of bits, two shifts of a word make it: fewer instructions than comparisons of vectors.
    """
    lanes = f"vector<{size}xi1>"
    if masks_are_vectors or size >= _WORD_BITS or size & (size - 1):
        first, below = (text.op(f"vector.create_mask {end} : {lanes}") for end in (front, count))
        beyond = text.op(f"arith.xori {first}, {text.constant(1, lanes)} : {lanes}")
        return text.op(f"arith.andi {beyond}, {below} : {lanes}")
    first, last = (text.op(f"arith.index_cast {end} : index to i64") for end in (front, count))
    one, all_ = text.constant(1, "i64"), text.constant(-1, "i64")
    beyond = text.op(f"arith.shli {all_}, {first} : i64")
    below = text.op(f"arith.subi {text.op(f'arith.shli {one}, {last} : i64')}, {one} : i64")
    bits = text.op(f"arith.trunci {text.op(f'arith.andi {beyond}, {below} : i64')} : i64 to i{size}")
    bits = text.op(f"vector.broadcast {bits} : i{size} to vector<1xi{size}>")
    return text.op(f"vector.bitcast {bits} : vector<1xi{size}> to {lanes}")
