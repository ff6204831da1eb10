"""A kernel with its shared memories goes in; tiles that the machine has no room for come out, as an error."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from wavespec.diagnostics import WavespecError, Where
from wavespec.ir.kernel import Kernel, Memory
from wavespec.lower.planned_tiles import hints_of_plan
from wavespec.ops.staged_writes import shared_bytes_of_all
from wavespec.targets.machine import Machine


class SharedMemoryExceeded(WavespecError, code="shared-memory-exceeded"):
    """``memories``: staged tiles, and values that lanes or steps hand on; ``planned``: what to do about tiles of the
    compiler."""

    def __init__(
        self, where: Where, needed: int, machine: Machine, memories: list[Memory], planned: Sequence[str] = ()
    ) -> None:
        parts = Counter(
            f"{m.name.partition('.')[0]}: {'*'.join(map(str, m.shape))} x {m.dtype.bytes} bytes x {m.buffers} stage(s)"
            for m in memories
        )
        what = " and ".join(
            words
            for words, is_staged in (("staged tiles", True), ("values that are handed on", False))
            if any(m.staged == is_staged for m in memories)
        )
        super().__init__(
            where,
            f"The {what} need {needed} bytes of shared memory; {machine.variant} has {machine.shared.bytes}.",
            notes=[f"{count} of {part}" if count > 1 else part for part, count in parts.items()],
            hints=planned
            or ["Use smaller tiles or fewer stages." if any(m.staged for m in memories) else "Use smaller tiles."],
        )


def check_shared(kernel: Kernel, machine: Machine, emitted: int = 0) -> None:
    """Raises `SharedMemoryExceeded` where the staged tiles of a kernel do not fit the machine; ``emitted``: bytes with
    signals and what is left free between tiles, once they are known."""
    staged = [memory for memory in kernel.memories if memory.space == "shared"]
    needed = max(emitted, shared_bytes_of_all(staged))
    if needed > machine.shared.bytes:
        loops = (split.span for split in kernel.distribution.loops)
        where = next(loops, None) or next((memory.span for memory in staged if memory.span), None)
        raise SharedMemoryExceeded(where, needed, machine, staged, hints_of_plan(kernel))
