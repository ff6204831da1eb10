"""A tile kernel in; out come the tensors that it reads and changes, and those whose lanes do not have the same."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from wavespec.diagnostics import WavespecError, Where
from wavespec.ir.expr import const
from wavespec.ir.kernel import Kernel, Op, rewrite
from wavespec.ir.layout import Layout
from wavespec.ir.nodes import replace
from wavespec.ir.tile_ops import READ, WRITE
from wavespec.targets.machine import Machine


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


def moved_in_place(kernel: Kernel, machine: Machine) -> Iterator[WavespecError]:
    """Writes of such tensors by other lanes, or from other registers, than have read them; or by several lanes that do
    not wait for each other, of which one may not have read what another has written."""
    names = reads_in_place(kernel)
    read = [(op["memory"], op.result.tile.layout) for op in kernel.walk() if op.is_(READ) and op["memory"] in names]
    for op in kernel.walk():
        if op.is_(WRITE) and op["memory"] in names:
            layout = op.operands[0].tile.layout
            if any(memory == op["memory"] and of != layout for memory, of in read):
                why, hint = "lanes write elements that others read", "Write what was computed at the same places"
                yield MovedInPlace(op.span, op["memory"], why, hint)
            elif layout is not None and has_copies(kernel, layout) and not is_awaited(kernel, op, machine):
                tile = op.operands[0].tile
                sizes = ", ".join(f"{dim}: {extent}" for dim, extent in zip(tile.dims, tile.extents, strict=True))
                why = f"several lanes have each element of its tiles ({sizes})"
                hint = "Choose tiles that all lanes of all waves share out evenly"
                yield MovedInPlace(op.span, op["memory"], why, hint)


def with_awaited_writes(kernel: Kernel, machine: Machine) -> Kernel:
    """The kernel, in which all lanes meet before some write elements that others have read as well."""

    def change(op: Op) -> tuple[Op, ...]:
        if not op.is_(WRITE) or not is_awaited(kernel, op, machine):
            return (op,)
        layout = op.operands[0].tile.layout
        return (op.with_(awaited=True) if layout is not None and has_copies(kernel, layout) else op,)

    return replace(kernel, body=rewrite(kernel.body, change)) if reads_in_place(kernel) else kernel


def is_awaited(kernel: Kernel, write: Op, machine: Machine) -> bool:
    """Whether all lanes of the workgroup meet before they change what they have read: where all of them have the same
    to do, and elements are where the tile is."""
    is_plain = not (write.get("at") or write.get("around") or write.get("combine") or write.get("staged"))
    return machine.concurrent_waves and not kernel.producers and is_plain and write["memory"] in reads_in_place(kernel)


def has_copies(kernel: Kernel, layout: Layout) -> bool:
    """Whether two lanes of a workgroup have the same elements."""
    counts = {"lane": kernel.lanes, **dict(kernel.waves)}
    places = [
        tuple(base.substitute(dict(zip(counts, map(const, numbers), strict=True))) for _, base in layout.base)
        for numbers in itertools.product(*map(range, counts.values()))
    ]
    return len(set(places)) < len(places)
