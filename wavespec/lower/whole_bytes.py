"""Elements that share bytes are stored as whole bytes: by the lane that has all elements of each."""

from __future__ import annotations

from wavespec.diagnostics import WavespecError, Where, raise_all
from wavespec.ir.dtype import DType
from wavespec.ir.kernel import Kernel, Op
from wavespec.ir.thread_ops import STORE


class PartOfByte(WavespecError, code="part-of-byte"):
    def __init__(self, where: Where, name: str, dtype: DType, dim: str) -> None:
        elements, bytes_ = dtype.packed
        places = "a byte" if bytes_ == 1 else f"{bytes_} bytes"
        super().__init__(
            where,
            f"'{name}' has {elements} elements of {dtype} in {places}, but a lane has single ones of them to write.",
            hints=[
                f"Let neighbours along '{dim}' be neighbours in the value: a tile of {elements} or more along it, and "
                "a place that counts in its last dim without a factor."
            ],
        )


def check_whole_bytes(kernel: Kernel) -> None:
    """Raise a `PartOfByte` for every write that stores elements without those they share a byte with."""
    packed = {memory.name: memory for memory in kernel.memories if memory.space == "global" and memory.dtype.is_packed}
    if not packed:
        return
    written = {
        op["memory"]: op.span
        for op in kernel.walk()
        if op.is_(STORE) and op["memory"] in packed and not _is_whole(op, packed[op["memory"]].dtype)
    }
    raise_all(PartOfByte(span, name, packed[name].dtype, packed[name].dims[-1]) for name, span in written.items())


def _is_whole(store: Op, dtype: DType) -> bool:
    """Whether it, and what of it is inside of its row, starts and ends with a byte."""
    (group, _), size, valid = dtype.packed, store.operands[0].vector.elements, store["valid"]
    return all(n % group == 0 for n in (size, store["offset"].divisor, 0 if valid is None else valid.divisor))
