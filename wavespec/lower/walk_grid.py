"""Thread kernel in, thread kernel out: workgroups that run together are neighbours in the result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import ClassVar

from wavespec.ir.expr import Expr, minimum, symbol
from wavespec.ir.kernel import Kernel
from wavespec.lower.base import Pass
from wavespec.lower.last_round import SYMBOLS, LastRound
from wavespec.lower.thread_properties import grid_is_of_a_launch, is_of_lanes
from wavespec.lower.tile_walk import MOST_TILES, defined, in_bands, product
from wavespec.targets.machine import Machine

_NUMBER = symbol("number", 0, MOST_TILES)
"""Of a workgroup, in the order in which the machine starts them."""
_DEALT = symbol("dealt", 0, MOST_TILES)
"""The same, with those of one chiplet after each other."""
_COUNT = symbol("count", 0, MOST_TILES)


class WalkGrid(Pass):
    """Have the workgroups of a launch walk over the grid in bands of rows, as the schedule or the machine says.

    Before: a grid with the axes of a launch; a workgroup computes the tile at its own place.
    After:  the machine counts workgroups along the axes by ``id0`` ..., and ``let`` says which place of the grid it is:
            down the rows of a band (``group``), then on to its next column, so that workgroups that run at the same
            time share what they read.  Where the machine deals workgroups out to chiplets with a cache each, in turns,
            neighbours go to the same one.  Persistent kernels have their order already.
    """

    name: ClassVar[str] = "walk-grid"
    requires = (is_of_lanes, grid_is_of_a_launch)

    def applies_to(self, machine: Machine) -> bool:
        return machine.concurrent_workgroups

    def apply(self, kernel: Kernel, machine: Machine) -> Kernel:
        if kernel.distribution.last_round > 1 and not kernel.distribution.persistent:
            return _in_pieces(kernel, machine)
        grid = _axes(kernel)
        group, chiplets = _walk(kernel, machine, is_band=tuple(grid)[:2] == (0, 1))
        if not grid or (group, chiplets) == (0, 1):
            return kernel
        ids = {axis: symbol(f"id{axis}", 0, MOST_TILES) for axis in grid}
        *inner, number = grid
        total: Expr = ids[number]
        for axis in reversed(inner):
            total = total * kernel.grid[axis] + ids[axis]
        values: dict[str, Expr] = {"number": total}
        if chiplets > 1:
            values |= _dealt(product(kernel.grid[axis] for axis in grid), chiplets)
        named = {name: kernel.grid[axis] for axis, name in grid.items()}
        values |= in_bands(_DEALT if chiplets > 1 else _NUMBER, named, group)
        own = (_NUMBER, _COUNT, _DEALT) if chiplets > 1 else (_NUMBER,)
        kernel, lets = defined(kernel, (*ids.values(), *own), values)
        return replace(kernel, body=(*lets, *kernel.body))


def _in_pieces(kernel: Kernel, machine: Machine) -> Kernel:
    """A launch of one axis: all tiles of full rounds, then the parts of the others."""
    first = symbol("id0", 0, MOST_TILES)
    plan, named = kernel.distribution, {f"wg{axis}": extent for axis, extent in enumerate(kernel.grid)}
    last = LastRound(product(kernel.grid), machine.processors, plan.last_round)
    tile, values = last.at(first)
    values = {**last.once(), **values, **in_bands(tile, named, plan.group or machine.raster_group)}
    grid = (last.workgroups,)
    kernel, lets = defined(kernel, (first, *SYMBOLS), values)
    return replace(kernel, grid=grid, body=(*lets, *kernel.body))


def _axes(kernel: Kernel) -> Mapping[int, str]:
    """The symbol of a workgroup's place along each axis of the launch; a fixed dim of one tile has none."""
    declared = {known.args[0] for known in kernel.symbols}
    names = {axis: [f"launch{axis}", f"wg{axis}"] for axis in range(len(kernel.grid))}
    found = {axis: next((name for name in both if name in declared), "") for axis, both in names.items()}
    return {axis: name for axis, name in found.items() if name}


def _walk(kernel: Kernel, machine: Machine, *, is_band: bool) -> tuple[int, int]:
    """Rows of a band, 0: tiles as they come; and chiplets that each get neighbours, 1: workgroups as they come."""
    plan = kernel.distribution
    if plan.persistent or plan.split > 1:  # workgroups of one tile stay neighbours
        return 0, 1
    by_machine = machine.raster_group if len(kernel.grid) == 2 and not plan.has_orders else 0
    group = (plan.group or by_machine) if is_band else 0
    return group, machine.chiplets if (group > 1 if plan.chiplets is None else plan.chiplets) else 1


def _dealt(count: Expr, chiplets: int) -> dict[str, Expr]:
    """The number of the workgroup that a chiplet computes in place of its own: those of one follow each other."""
    chiplet = _NUMBER % chiplets
    before = chiplet * (_COUNT // chiplets) + minimum(chiplet, _COUNT % chiplets)
    return {"count": count, "dealt": before + _NUMBER // chiplets}
