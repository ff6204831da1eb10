"""A loop over tiles goes in; whether it had better be written once, with its bound checks, comes out."""

from __future__ import annotations

from wavespec.ir.kernel import Kernel, Op
from wavespec.ir.tile_ops import READ
from wavespec.ops.accesses import granule_elements
from wavespec.targets.machine import Machine

_MOST = 1000
"""Such elements are a dozen lines each, with bound checks and without."""


def stands_once(loop: Op, kernel: Kernel, machine: Machine) -> bool:
    """Whether a loop is written once: one that reads so many elements one by one in its text, where loops inside of it
    stand twice already or not, and where waves take turns one over two strips of a tile, which would be written out as
    often as without strips; layouts are assigned."""
    if not machine.concurrent_waves and not loop.node and loop.get("lower") is None:
        most = loop["extent"].high
        if most is not None and most <= 2 * loop["step"].value:
            return True
    return sum(_apart(op, kernel) for op in loop.walk() if op.is_(READ)) > _MOST


def _apart(read: Op, kernel: Kernel) -> int:
    """The elements of a tile of a tensor, if none lies beside the next; mapped reads find their own neighbours."""
    layout, memory = read.result.tile.layout, kernel.memory(read["memory"])
    if layout is None or memory.space != "global" or read.get("at") is not None:
        return 0
    return layout.elements if granule_elements(memory, layout, dict(read["origin"])) == 1 else 0
