"""A kernel with its shared memories in; the same with sums that waves and workgroups hand each other where the tiles of
a loop were, where that is of use, out."""

from __future__ import annotations

from dataclasses import replace

from wavespec.ir.kernel import Kernel, Op
from wavespec.ir.tile_ops import CLUSTER_EXTREME, CLUSTER_SUM, SPREAD_SUM
from wavespec.ops.staged_writes import shared_bytes_of_all

_HANDED = CLUSTER_EXTREME | CLUSTER_SUM | SPREAD_SUM


def with_sums_over(kernel: Kernel, tiles: tuple[str, ...], room: int) -> Kernel:
    """The kernel whose sums take the bytes of ``tiles``, whose loop has ended by then, if there is too little room.

    Those that waves have parts of always do: another workgroup has that much more room beside it.  None does where the
    workgroup goes on with another tile, whose first steps are copied while its sums are added up.

    Args:
        tiles: names of memories that a loop fills, those of waves that only copy.
        room: bytes of shared memory.
    """
    handed = [op for op in kernel.walk() if op.is_(_HANDED)]
    is_enough = shared_bytes_of_all(kernel.memories) <= room and not (tiles and any(map(_has_parts, handed)))
    if kernel.distribution.persistent or is_enough:
        return kernel
    sums = {op["memory"] for op in handed}
    memories = (replace(one, over=tiles) if one.name in sums else one for one in kernel.memories)
    return replace(kernel, memories=tuple(memories))


def _has_parts(op: Op) -> bool:
    return op.is_(SPREAD_SUM) or (op.is_(CLUSTER_SUM) and bool(op.get("dim")))
