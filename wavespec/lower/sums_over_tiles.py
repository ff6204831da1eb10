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

    Those that waves have parts of always do beside waves that only copy, unless the workgroup goes on with another
    tile: another workgroup has that much more room beside it.

    Args:
        tiles: names of memories that a loop fills.
        room: bytes of shared memory.
    """
    handed = [op for op in kernel.walk() if op.is_(_HANDED)]
    has_ended = bool(kernel.producers) and not kernel.distribution.persistent
    if not (has_ended and any(map(_has_parts, handed))) and shared_bytes_of_all(kernel.memories) <= room:
        return kernel
    sums = {op["memory"] for op in handed}
    memories = (replace(one, over=tiles) if one.name in sums else one for one in kernel.memories)
    return replace(kernel, memories=tuple(memories))


def _has_parts(op: Op) -> bool:
    return op.is_(SPREAD_SUM) or (op.is_(CLUSTER_SUM) and bool(op.get("dim")))
