"""A tile kernel in; out come the tensors that it reads and changes, and those whose lanes do not have the same."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from wavespec.diagnostics import WavespecError, Where
from wavespec.ir.expr import const
from wavespec.ir.kernel import Kernel
from wavespec.ir.layout import Layout
from wavespec.ir.tile_ops import READ, WRITE


class MovedInPlace(WavespecError, code="moved-in-place"):
    def __init__(self, where: Where, tensor: str, why: str, hint: str) -> None:
        super().__init__(
            where,
            f"'{tensor}' is changed in place, and {why}.",
            hints=[f"{hint}, or write the result to an output of its own."],
        )


def reads_in_place(kernel: Kernel) -> frozenset[str]:
    """The arguments that the kernel changes, and reads before."""
    changed = {memory.name for memory in kernel.memories if memory.role == "inout"}
    return frozenset(op["memory"] for op in kernel.walk() if op.is_(READ) and op["memory"] in changed)


def moved_in_place(kernel: Kernel) -> Iterator[WavespecError]:
    """Writes of such tensors by other lanes, or from other registers, than have read them; or by several lanes, of
    which one may not have read what another has written."""
    names = reads_in_place(kernel)
    read = [(op["memory"], op.result.tile.layout) for op in kernel.walk() if op.is_(READ) and op["memory"] in names]
    for op in kernel.walk():
        if op.is_(WRITE) and op["memory"] in names:
            layout = op.operands[0].tile.layout
            if any(memory == op["memory"] and of != layout for memory, of in read):
                why, hint = "lanes write elements that others read", "Write what was computed at the same places"
                yield MovedInPlace(op.span, op["memory"], why, hint)
            elif layout is not None and _has_copies(kernel, layout):
                tile = op.operands[0].tile
                sizes = ", ".join(f"{dim}: {extent}" for dim, extent in zip(tile.dims, tile.extents, strict=True))
                why = f"several lanes have each element of its tiles ({sizes})"
                hint = "Choose tiles that all lanes of all waves share out evenly"
                yield MovedInPlace(op.span, op["memory"], why, hint)


def _has_copies(kernel: Kernel, layout: Layout) -> bool:
    """Whether two lanes of a workgroup have the same elements."""
    counts = {"lane": kernel.lanes, **dict(kernel.waves)}
    places = [
        tuple(base.substitute(dict(zip(counts, map(const, numbers), strict=True))) for _, base in layout.base)
        for numbers in itertools.product(*map(range, counts.values()))
    ]
    return len(set(places)) < len(places)
