"""A tile kernel in; out come the tensors that it both reads and changes, and mistakes of lanes that do not have the same."""

from __future__ import annotations

from collections.abc import Iterator

from wavespec.diagnostics import WavespecError, Where
from wavespec.ir.kernel import Kernel
from wavespec.ir.tile_ops import READ, WRITE


class MovedInPlace(WavespecError, code="moved-in-place"):
    def __init__(self, where: Where, tensor: str) -> None:
        super().__init__(
            where,
            f"'{tensor}' is changed in place, and lanes write elements that others read.",
            hints=["Write what was computed of its elements at the same places, or to an output of its own."],
        )


def reads_in_place(kernel: Kernel) -> frozenset[str]:
    """The arguments that the kernel changes, and reads before."""
    changed = {memory.name for memory in kernel.memories if memory.role == "inout"}
    return frozenset(op["memory"] for op in kernel.walk() if op.is_(READ) and op["memory"] in changed)


def moved_in_place(kernel: Kernel) -> Iterator[WavespecError]:
    """Writes of such tensors by other lanes, or from other registers, than have read them."""
    names = reads_in_place(kernel)
    read = [(op["memory"], op.result.tile.layout) for op in kernel.walk() if op.is_(READ) and op["memory"] in names]
    for op in kernel.walk():
        if op.is_(WRITE) and op["memory"] in names:
            layout = op.operands[0].tile.layout
            if any(memory == op["memory"] and of != layout for memory, of in read):
                yield MovedInPlace(op.span, op["memory"])
