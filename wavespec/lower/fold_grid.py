"""Thread kernel in, thread kernel out: a grid has the axes of a launch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

from wavespec.ir.expr import Expr, symbol
from wavespec.ir.kernel import Kernel, Op
from wavespec.ir.tile_order import tile_at
from wavespec.lower.base import Pass
from wavespec.lower.thread_properties import grid_is_of_a_launch, is_of_lanes
from wavespec.lower.tile_walk import MOST_TILES, let, product
from wavespec.targets.machine import Machine

_AXES = 3  # of a launch, on every machine


class FoldGrid(Pass):
    """Put the axes of the grid that share one of the launch, and those beyond the launch's, into one.

    Before: a grid of any number of axes; ``wg0`` ... are a workgroup's place in it.
    After:  at most three, none of them ``joined``.  Where the launch's are others, the machine counts workgroups along
            them by ``launch0`` ..., and ``let`` says which place a number is, the first of the axes that share one
            running fastest, and which tile of an axis with an order of its own.
    """

    name: ClassVar[str] = "fold-grid"
    requires = (is_of_lanes,)
    ensures = (grid_is_of_a_launch,)

    def apply(self, kernel: Kernel, machine: Machine) -> Kernel:
        if kernel.distribution.persistent:
            return kernel
        places = _launch_axes(kernel)
        lets: list[Op] = []
        added: list[Expr] = []
        orders = {split.axis: split.order for split in kernel.distribution.workgroup if split.order is not None}
        for number, axes in enumerate(places):
            if axes != [number] or number in orders:
                added.append(symbol(f"launch{number}", 0, MOST_TILES))
                lets += _places(kernel, axes, added[-1], orders)
        grid = tuple(product(kernel.grid[axis] for axis in axes) for axes in places)
        return replace(kernel.with_symbols(*added), grid=grid, joined=(), body=(*lets, *kernel.body))


def _launch_axes(kernel: Kernel) -> list[list[int]]:
    """The axes of the grid in each of the launch."""
    found: list[list[int]] = []
    for axis in range(len(kernel.grid)):
        if found and (axis in kernel.joined or len(found) == _AXES):
            found[-1].append(axis)
        else:
            found.append([axis])
    return found


def _places(kernel: Kernel, axes: list[int], number: Expr, orders: Mapping[int, Expr]) -> list[Op]:
    """What each of the axes has of a workgroup's number among those of all of them: its tile."""
    lets: list[Op] = []
    for axis in axes:
        is_last, extent = axis == axes[-1], kernel.grid[axis]
        if any(known.args[0] == f"wg{axis}" for known in kernel.symbols):
            place = number if is_last else number % extent
            lets.append(let(f"wg{axis}", tile_at(orders.get(axis), place, extent)))
        number = number if is_last else number // extent
    return lets
