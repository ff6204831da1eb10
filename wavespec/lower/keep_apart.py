"""Thread kernel in, thread kernel out: tiles that may change the same elements are one workgroup's."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

from wavespec.ir.expr import const
from wavespec.ir.kernel import Kernel, Op
from wavespec.ir.thread_ops import STORE
from wavespec.lower.base import Pass, fresh_names
from wavespec.lower.carried_numbers import loop_with
from wavespec.lower.thread_properties import is_of_lanes
from wavespec.targets.machine import Machine


class KeepApart(Pass):
    """Give one workgroup all tiles that may change the same elements.

    Before: stores that combine have ``apart``, the axes of the grid along which workgroups have elements of their own.
    After:  the grid has one workgroup along each of the others, which goes through the tiles there in a loop.
    """

    name: ClassVar[str] = "keep-apart"
    requires = (is_of_lanes,)

    def apply(self, kernel: Kernel, machine: Machine) -> Kernel:
        store = next((op for op in kernel.walk() if op.is_(STORE) and op.get("apart")), None)
        if store is None:
            return kernel
        body, grid, fresh = kernel.body, list(kernel.grid), fresh_names(kernel)
        for axis, extent in enumerate(kernel.grid):
            if axis not in store["apart"] and extent != const(1):
                bounds = {"induction": f"wg{axis}", "lower": const(0), "upper": extent}
                body = (_around(bounds, body, fresh),)
                grid[axis] = const(1)
        return replace(kernel, body=body, grid=tuple(grid))


def _around(bounds: Mapping[str, object], body: Sequence[Op], fresh: Callable[[str], str]) -> Op:
    return loop_with(bounds, {}, lambda _: (body, {}), fresh)
