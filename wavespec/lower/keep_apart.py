"""Thread kernel in, thread kernel out: tiles that may change the same elements are one workgroup's."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar, Final

from wavespec.ir.expr import const
from wavespec.ir.kernel import Kernel, Op
from wavespec.ir.thread_ops import ATOMIC, MMA, STORE, WRITES_MEMORY
from wavespec.lower.base import Pass, fresh_names
from wavespec.lower.carried_numbers import loop_with
from wavespec.lower.thread_properties import is_of_lanes
from wavespec.targets.machine import Machine

_INTEGERS: Final = ("int", "uint")
_MOST_IN_TURN: Final = 64
"""Tiles that one workgroup counts: with tiles of a million elements, as many as take 30 ms."""


class KeepApart(Pass):
    """Give one workgroup all tiles that may change the same elements.

    Before: stores that combine have ``apart``, the axes of the grid along which workgroups have elements of their own.
    After:  the grid has one workgroup along each of the others, which goes through the tiles there in a loop.
    Cases:  workgroups on processors that do nothing but count, of which there are few, are one: what a workgroup alone
            adds to integers needs no indivisible steps, which take five times as long, and more where others add, too.
    """

    name: ClassVar[str] = "keep-apart"
    requires = (is_of_lanes,)

    def apply(self, kernel: Kernel, machine: Machine) -> Kernel:
        store = next((op for op in kernel.walk() if op.is_(STORE) and op.get("apart")), None)
        if store is None and (machine.concurrent_waves or not _only_counts(kernel)):
            return kernel
        apart = () if store is None else store["apart"]
        body, grid, fresh = kernel.body, list(kernel.grid), fresh_names(kernel)
        for axis, extent in enumerate(kernel.grid):
            if axis not in apart and extent != const(1):
                bounds = {"induction": f"wg{axis}", "lower": const(0), "upper": extent}
                body = (_around(bounds, body, fresh),)
                grid[axis] = const(1)
        return replace(kernel, body=body, grid=tuple(grid))


def _only_counts(kernel: Kernel) -> bool:
    """Whether all that a kernel does is to add to integers, in few large tiles."""
    if math.prod(extent.high or _MOST_IN_TURN + 1 for extent in kernel.grid) > _MOST_IN_TURN:
        return False
    writes = [op for op in kernel.walk() if op.is_(WRITES_MEMORY)]
    counts = (
        op.is_(ATOMIC) and op["function"] == "add" and op.operands[0].vector.dtype.kind in _INTEGERS for op in writes
    )
    return bool(writes) and all(counts) and not any(op.is_(MMA) for op in kernel.walk())


def _around(bounds: Mapping[str, object], body: Sequence[Op], fresh: Callable[[str], str]) -> Op:
    return loop_with(bounds, {}, lambda _: (body, {}), fresh)
