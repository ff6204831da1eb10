"""Thread kernel in, thread kernel out: one workgroup per processor walks over the tiles of the result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

from wavespec.diagnostics import WavespecError, Where
from wavespec.ir.expr import Expr, ceildiv, const, maximum, minimum, symbol
from wavespec.ir.kernel import Kernel, Op, Region, attribute_pairs
from wavespec.ir.tile_order import tile_at
from wavespec.lower.base import Pass
from wavespec.lower.thread_properties import is_of_lanes, tiles_are_walked_over
from wavespec.schema.check_schedules import UselessSetting
from wavespec.targets.machine import Machine

_MOST_TILES = 2**30  # sums with small numbers stay within 32 bits
_LARGEST_GROUP = 64
_BAND = {
    "band_tiles": symbol("band_tiles", 1, _MOST_TILES),
    "band_start": symbol("band_start", 0, _MOST_TILES),
    "band_place": symbol("band_place", 0, _MOST_TILES),
    "band_height": symbol("band_height", 1, _LARGEST_GROUP),
}
"""Tiles of a whole band; first row of the band of a tile, the tile's number inside of it, and rows of the band."""


class PersistenceNotPossible(WavespecError, code="persistence-not-possible"):
    def __init__(self, where: Where, machine: Machine) -> None:
        super().__init__(
            where,
            f"{machine.variant} does not say how many processors it has, so one workgroup cannot stay on each.",
            hints=["Leave out 'persistent' for this target, or, on a GPU, say how many workgroups stay: 'count'."],
        )


class PersistWorkgroups(Pass):
    """Put the loop over tiles that the launch would do into the kernel.

    Before: a workgroup per tile; ``wg0`` ... are its place in the grid.
    After:  ``for round``: in each the workgroups take as many tiles as there are of them; ``let`` says which place a
            tile is, bands of rows of the grid one after another (``group``), so that tiles that are computed at the
            same time share what they read.  The grid has one axis and at most one workgroup per processor, or as many
            as the schedule says (``count``).  A cluster takes tiles that are neighbours along axis 0, the last of which
            may lie beyond the edge.
    Errors: ``persistence-not-possible``, ``useless-setting`` at the schedule.
    """

    name: ClassVar[str] = "persist-workgroups"
    requires = (is_of_lanes,)
    ensures = (tiles_are_walked_over,)

    def apply(self, kernel: Kernel, machine: Machine) -> Kernel:
        plan = kernel.distribution
        if plan.group > 1 and plan.is_for_target and not machine.concurrent_workgroups:
            why = f"workgroups of {machine.target} run one after another on each core"
            raise UselessSetting(plan.group_span, "group", why, "Leave it out for this target.")
        if plan.chiplets is not None and plan.is_for_target and machine.chiplets == 1:
            why = f"{machine.variant} has no chiplets"
            raise UselessSetting(plan.chiplets_span, "chiplets", why, "Leave it out for this target.")
        if not plan.persistent:
            return kernel
        if not (machine.processors or (plan.workers and machine.concurrent_workgroups)):
            raise PersistenceNotPossible(plan.workgroups_span, machine)
        rows = ceildiv(kernel.grid[0], kernel.cluster)
        places = (rows, *kernel.grid[1:])
        tiles = const(1)
        for extent in places:
            tiles = tiles * extent
        most = machine.clusters[kernel.cluster] if kernel.cluster > 1 else plan.workers or machine.processors
        # Symbols of their own keep the arithmetic in 32 bits.
        count, workers = symbol("tiles", 0, _MOST_TILES), symbol("workers", 1, most)
        first, turn = symbol("workgroup", 0, most * kernel.cluster - 1), symbol("round", 0, _MOST_TILES)
        tile, rank = symbol("tile", 0, _MOST_TILES), symbol("rank", 0, kernel.cluster - 1)
        by_machine = machine.raster_group if len(places) == 2 and not plan.has_orders else 1
        group = max(1, (plan.group or by_machine) // kernel.cluster)
        values = {"tile": first // kernel.cluster + turn * workers, **_places(tile, places, group)}
        values["wg0"] = values["wg0"] * kernel.cluster + rank
        values |= {
            f"wg{split.axis}": tile_at(split.order, values[f"wg{split.axis}"], kernel.grid[split.axis])
            for split in plan.workgroup
        }
        declared = [count, workers, first, turn, tile, rank, *(_BAND[name] for name in values if name in _BAND)]
        known = {known.args[0] for known in (*kernel.symbols, *declared) if not known.is_const}
        lets = tuple(_let(name, value) for name, value in values.items() if name in known)
        rounds = (count - first // kernel.cluster + workers - 1) // workers
        bounds = {"induction": "round", "lower": const(0), "upper": rounds, "step": const(1), "unroll": 1}
        loop = Op("for", attributes=attribute_pairs(bounds), region=Region((), (*lets, *kernel.body), ()))
        before = [_let("tiles", tiles)]
        before += [_let("workers", minimum(count, most))] if most > 1 else []
        before += [_let("rank", first % kernel.cluster)] if kernel.cluster > 1 else []
        grid = (minimum(tiles, most) * kernel.cluster,)
        return replace(kernel.with_symbols(*declared), grid=grid, joined=(), body=(*before, loop))


def _let(name: str, value: Expr) -> Op:
    return Op("let", attributes=attribute_pairs({"symbol": name, "value": value}))


def _places(tile: Expr, grid: tuple[Expr, ...], group: int) -> dict[str, Expr]:
    """The place in the grid of tile number ``tile``, along each axis; axis 0 runs first, inside of a band."""
    if len(grid) < 2 or group == 1:
        return _in_order(tile, grid, 0)
    rows, columns, *others = grid
    band, start, inside, height = _BAND.values()
    planes = _in_order(tile // (rows * columns), others, 2) if others else {}
    tile = tile % (rows * columns) if others else tile
    return planes | {
        "band_tiles": columns * group,
        "band_start": tile // band * group,
        "band_place": tile % band,
        "band_height": maximum(1, minimum(rows - start, group)),
        "wg0": start + inside % height,
        "wg1": inside // height,
    }


def _in_order(number: Expr, grid: Sequence[Expr], first: int) -> dict[str, Expr]:
    """The places that a number stands for along the axes from ``first`` on, the first of which runs fastest."""
    places: dict[str, Expr] = {}
    for axis, extent in enumerate(grid[:-1], first):
        places[f"wg{axis}"] = number % extent
        number = number // extent
    return places | {f"wg{first + len(grid) - 1}": number}
