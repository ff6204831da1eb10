"""Tile kernel in, tile kernel out: a launch has as many waves as there are elements for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import ClassVar

from wavespec.ir.expr import ceildiv, maximum, minimum
from wavespec.ir.kernel import Kernel, Op, Split
from wavespec.ir.names import wave_name
from wavespec.ir.tile_ops import CAST, ELEMENTWISE, INDEX, ITERATE, JOIN, READ, REDUCE, REGISTER, WRITE
from wavespec.lower.base import Pass
from wavespec.lower.tile_properties import tiles_are_placed, tiles_have_extents
from wavespec.lower.workgroups_together import waves_together
from wavespec.schema.checking.check_schedules import UselessSetting
from wavespec.targets.machine import Machine

_KNOWN = READ | WRITE | REDUCE | JOIN | INDEX | ELEMENTWISE | CAST | REGISTER | ITERATE
"""Operations to which a wave without elements adds nothing, and in which others read nothing of it."""


class FitWaves(Pass):
    """Launch no more waves of a workgroup than share out a row.

    Before: waves share out a tile of a dim, and a row may be much shorter than that: the last waves run, and hold
            registers, for nothing.
    After:  where the schedule says so (``fitted``), ``launched`` says how many of them have elements of a row, wherever
            it starts in an access.  So one kernel stands for tiles of all sizes.  In a cluster that shares out the dim
            (``split``), `SplitLoops` deals its elements out by waves, so that all workgroups have as many.
    Errors: ``useless-setting`` at the schedule.
    """

    name: ClassVar[str] = "fit-waves"
    requires = (tiles_have_extents, tiles_are_placed)

    def apply(self, kernel: Kernel, machine: Machine) -> Kernel:
        if not kernel.distribution.fitted:
            return kernel
        split = _shared_dim(kernel)
        for why, hint in _obstacles(kernel, split, machine):
            raise UselessSetting(kernel.distribution.workgroups_span, "fitted", why, hint)
        assert split is not None
        size, width = kernel.size(split.dim), _elements_of_access(kernel, split.dim, machine)
        in_front = width - 1 if size.divisor % width else 0
        own = split.tile // kernel.waves_along(split.dim) * kernel.distribution.split
        needed = ceildiv(size + in_front, own)
        return replace(kernel, launched=maximum(minimum(needed, kernel.wave_count), 1))


def _shared_dim(kernel: Kernel) -> Split | None:
    """The dim that all waves share out, with its tile, if they share out the steps of one loop."""
    shared = [split for split in kernel.distribution.loops if kernel.waves_along(split.dim) > 1]
    return shared[0] if len(shared) == 1 and kernel.waves_along(shared[0].dim) == kernel.wave_count else None


def _obstacles(kernel: Kernel, split: Split | None, machine: Machine) -> Iterator[tuple[str, str]]:
    """Why a launch always has all waves, each with what to do about it."""
    leave_out = "Leave it out."
    if not machine.fits_launches:
        yield f"launches on {machine.variant} have workgroups of one size", "Leave it out for this target."
    if split is None or kernel.producers or any(_has(op, split.dim) and not op.is_(_KNOWN) for op in kernel.walk()):
        yield "that takes waves which share out one dim of a loop, and reductions along it", leave_out
        return
    rows = [op.operands[0].tile for op in kernel.walk() if op.is_(REDUCE) and op["dim"] == split.dim]
    if any(
        extent > 1 for tile in rows for dim, extent in zip(tile.dims, tile.extents, strict=True) if dim != split.dim
    ):
        yield f"a wave has several rows along '{split.dim}'", "Use tiles of one row."
    if kernel.distribution.registers and waves_together(kernel, machine) < kernel.wave_count:
        room = waves_together(kernel, machine)
        why = f"{kernel.distribution.registers} registers of a lane leave room for {room} waves"
        yield why, "Use fewer 'registers', or a smaller tile."
    if not kernel.distribution.registers:
        yield "the registers of a lane say how many workgroups a processor has room for", "Add 'registers'."
    high = kernel.size(split.dim).high
    if high is None or high > split.tile * kernel.distribution.split:
        yield f"'{split.dim}' may take several steps of its loop", f"Add a condition on '{split.dim}' to the case."


def _has(op: Op, dim: str) -> bool:
    return dim in dict(op.get("origin") or ()) or any(dim in value.tile.dims for value in (*op.results, *op.operands))


def _elements_of_access(kernel: Kernel, dim: str, machine: Machine) -> int:
    """Of the tensors that have rows along a dim, the most that one access takes."""
    rows = [memory for memory in kernel.memories if memory.space == "global" and memory.contiguous_dim == dim]
    return machine.globals.access_bytes // min((memory.dtype.bytes for memory in rows), default=1)


def wave_of(kernel: Kernel, dim: str) -> tuple[str, int]:
    """The symbol of the waves along a dim, and the elements that each has of a tile."""
    split = next(one for one in kernel.distribution.loops if one.dim == dim)
    return wave_name(dim), split.tile // kernel.waves_along(dim)
