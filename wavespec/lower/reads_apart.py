"""A loop over tiles goes in; whether a step reads so many elements one by one that it had better be written once, comes
out."""

from __future__ import annotations

from wavespec.ir.kernel import Kernel, Op
from wavespec.ir.tile_ops import READ
from wavespec.ops.accesses import granule_elements

_MOST = 1000
"""Such elements are a dozen lines each, with bound checks and without."""


def reads_many_apart(loop: Op, kernel: Kernel) -> bool:
    """Whether that is so in its text, where loops inside of it stand twice already or not; layouts are assigned."""
    return sum(_apart(op, kernel) for op in loop.walk() if op.is_(READ)) > _MOST


def _apart(read: Op, kernel: Kernel) -> int:
    """The elements of a tile of a tensor, if none lies beside the next; mapped reads find their own neighbours."""
    layout, memory = read.result.tile.layout, kernel.memory(read["memory"])
    if layout is None or memory.space != "global" or read.get("at") is not None:
        return 0
    return layout.elements if granule_elements(memory, layout, dict(read["origin"])) == 1 else 0
