"""Thread kernel in, thread kernel out: a few workgroups per processor walk over the tiles of the result."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

from wavespec.diagnostics import WavespecError, Where
from wavespec.ir.expr import Expr, ceildiv, const, maximum, minimum, symbol
from wavespec.ir.kernel import Distribution, Kernel, Op
from wavespec.ir.thread_ops import LOAD, TILES_END
from wavespec.ir.tile_order import tile_at
from wavespec.lower.base import Pass, fresh_names
from wavespec.lower.carried_numbers import loop_with
from wavespec.lower.dealt_tiles import DealtTiles
from wavespec.lower.ended_tiles import EndedTiles, parts_in_turn
from wavespec.lower.last_round import LastRound
from wavespec.lower.load_ahead import can_load_ahead, symbols_outside_remainders
from wavespec.lower.pieces_in_turn import ALL, pieces_in_turn
from wavespec.lower.same_in_all_rounds import same_in_all_rounds
from wavespec.lower.sends_in_turn import sends_in_turn
from wavespec.lower.taken_tiles import differ_in_steps, may_be_taken, taken
from wavespec.lower.thread_properties import is_of_lanes, tiles_are_walked_over
from wavespec.lower.tile_walk import MOST_TILES, Walk, defined, in_bands, let, product
from wavespec.lower.workgroups_together import resident_of, resident_of_each
from wavespec.schema.checking.check_orders import EndOfLaunch
from wavespec.schema.checking.check_schedules import UselessSetting
from wavespec.targets.machine import Machine

_LEAST_SHARE = 3 / 4
"""Of the workgroups that a machine has room for: more do not stay away so that each loads once what all tiles read."""


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
            as the schedule says (``resident`` of each, ``count`` of all).  Where tiles of a dim have an order, such as
            the longest first, they are dealt out so that all have as much to do (`DealtTiles`).  Where values say how
            many steps tiles take, or an order along an axis that has others around it does, workgroups ask a counter
            for the next one: ``for round`` ends with ``take_number``, and goes on while there is a tile.  A cluster
            takes tiles that are neighbours along axis 0, the last of which may lie beyond the edge; one that shares
            out a tile sends to two places in turn (`sends_in_turn`).  Where ``tiles_end`` says so, tiles come in
            parts: ``for part`` around, with the loads that say how many tiles a part has, and rounds that go on from
            part to part; it stays in each tile, for `LeaveOutWaves`.  Where workgroups share out the last round
            (``last_round``), they take pieces, whole tiles and then parts of tiles, and all of them are there.
    Errors: ``persistence-not-possible``, ``useless-setting`` at the schedule; ``end-of-launch``, ``end-not-uniform`` at
            the constraint.
    """

    name: ClassVar[str] = "persist-workgroups"
    requires = (is_of_lanes,)
    ensures = (tiles_are_walked_over,)

    def apply(self, kernel: Kernel, machine: Machine) -> Kernel:
        plan = kernel.distribution
        _check_settings(plan, machine)
        end = next((op for op in kernel.body if op.is_(TILES_END)), None)
        if not plan.persistent and end is not None:
            raise EndOfLaunch(end.span, end["dim"])
        if not plan.persistent:
            return kernel
        if not (machine.processors or (plan.workers and machine.concurrent_workgroups)):
            raise PersistenceNotPossible(plan.workgroups_span, machine)
        rows = ceildiv(kernel.grid[0], kernel.cluster)
        places = (rows, *kernel.grid[1:])
        ended = EndedTiles(kernel, places) if end is not None else None
        # No division is by 0: where the machine knows that, it computes in 32 bits.
        extents = {f"wg{axis}": maximum(extent, 1) if len(places) > 2 else extent for axis, extent in enumerate(places)}
        named = ended.inner if ended else extents
        tiles = product(places)
        together = machine.clusters[kernel.cluster] if kernel.cluster > 1 else machine.processors
        staying = const(plan.workers) if plan.workers else _staying(kernel, machine, together)
        most = staying.high
        assert most is not None
        # Symbols of their own keep the arithmetic in 32 bits.
        count, workers = symbol("tiles", 0, MOST_TILES), symbol("workers", 1, most)
        first, turn = symbol("workgroup", 0, most * kernel.cluster - 1), symbol("round", 0, MOST_TILES)
        tile, rank = symbol("tile", 0, MOST_TILES), symbol("rank", 0, kernel.cluster - 1)
        shared_out = plan.split > 1  # the first axis is that of a cluster, and there is one row of them
        by_machine = machine.raster_group if len(places) == 2 and not (plan.has_orders or shared_out) else 0
        group = math.ceil((plan.group or by_machine) / kernel.cluster)
        own = symbol("cluster", 0, most - 1) if _shares_by_clusters(kernel) else first // kernel.cluster
        kernel = sends_in_turn(kernel, turn) if plan.split > 1 else kernel
        last = LastRound(ALL if ended else count, most, plan.last_round) if plan.last_round > 1 else None
        if last is not None:
            walk = pieces_in_turn(kernel, own, last, ended)
        elif most > 1 and staying.is_const and may_be_taken(kernel, machine):
            walk = taken(kernel, own, workers, count, ended)
        elif ended:
            walk = parts_in_turn(kernel, own, workers, ended)
        else:
            walk = _dealt(kernel, own, workers, staying, turn, named)
        values = {**walk.each, "tile": walk.number, **in_bands(tile, named, group)}
        if kernel.cluster > 1:
            values["wg0"] = values["wg0"] * kernel.cluster + rank
        values |= {
            name: tile_at(split.order, values[name], named[name] if ended else kernel.grid[split.axis])
            for split in plan.workgroup
            if (name := f"wg{split.axis}") in values
        }
        kernel, lets = defined(kernel, (count, workers, first, turn, tile, rank, own, *walk.symbols), values)
        before = [let("tiles", tiles)]
        before += [let("workers", minimum(count, staying))] if most > 1 and last is None else []
        before += [let("rank", first % kernel.cluster)] if kernel.cluster > 1 else []
        before += [let("cluster", first // kernel.cluster)] if _shares_by_clusters(kernel) else []
        loops = walk.loops((*lets, *(ended.rest if ended else kernel.body)))
        if can_load_ahead(kernel) and len(loops) == 1:
            start, loop, symbols = same_in_all_rounds(loops[0], fresh_names(kernel))
            kernel, loops = kernel.with_symbols(*symbols), (*start, loop)
        staying = staying if last else minimum(tiles, staying)
        grid, memories = (staying * kernel.cluster,), (*kernel.memories, *walk.memories)
        return replace(kernel, grid=grid, joined=(), memories=memories, body=(*before, *loops))


def _shares_by_clusters(kernel: Kernel) -> bool:
    """Whether the steps of a tile depend on which cluster has it: they are the same for all of one, by its number."""
    return kernel.cluster > 1 and kernel.distribution.last_round > 1


def _check_settings(plan: Distribution, machine: Machine) -> None:
    if plan.group > 1 and plan.is_for_target and not machine.concurrent_workgroups:
        why = f"workgroups of {machine.target} run one after another on each core"
        raise UselessSetting(plan.group_span, "group", why, "Leave it out for this target.")
    if plan.chiplets is not None and plan.is_for_target and machine.chiplets == 1:
        why = f"{machine.variant} has no chiplets"
        raise UselessSetting(plan.chiplets_span, "chiplets", why, "Leave it out for this target.")


def _staying(kernel: Kernel, machine: Machine, together: int) -> Expr:
    """As many workgroups as the machine has room for, or a few less, so that tiles of each are a multiple apart of what
    remainders divide by that alone say where something is that all tiles read, as weights beside rows that start
    anywhere: it is the same for all tiles of a workgroup then, which loads it once."""
    most = resident_of(kernel, machine) * together
    if not can_load_ahead(kernel):
        return most
    axes = {f"wg{axis}" for axis in range(1 if kernel.distribution.split > 1 else 0, len(kernel.grid))}
    step = 1
    for op in kernel.walk():
        if op.is_(LOAD) and axes & op["offset"].symbols and axes.isdisjoint(symbols_outside_remainders(op["offset"])):
            found = (node.args[1] for node in op["offset"].walk() if node.kind == "mod" and axes & node.symbols)
            step = math.lcm(step, *(size.value for size in found if size.is_const))
    each = [resident * together for resident in resident_of_each(kernel, machine)]
    are_enough = all(one // step * step >= _LEAST_SHARE * one for one in each)
    return most // step * step if are_enough else most


def _dealt(kernel: Kernel, own: Expr, workers: Expr, staying: Expr, turn: Expr, named: Mapping[str, Expr]) -> Walk:
    """Tiles that are dealt out by formulas of the round.

    Theirs are as far apart as there are places for workgroups, which is no number of tiles: nothing is divided by how
    many there are before the first tile, and what places have in common in all rounds is seen.  With fewer workgroups
    each has one tile.
    """
    count = symbol("tiles", 0, MOST_TILES)
    ordered = {f"wg{split.axis}" for split in kernel.distribution.workgroup if split.order is not None}
    axes = {f"wg{axis}" for axis in range(len(kernel.grid))}
    if (ordered or differ_in_steps(kernel, axes)) and not workers.is_const:
        dealt = DealtTiles.back_and_forth(own, workers, turn, count)
        if len(named) > 1 and ordered == {[*named][-1]}:
            dealt = dealt.or_in_pairs(own, workers, turn, named)
    else:
        dealt = DealtTiles.in_turn(own, staying, turn, count)

    def loops(inside: Sequence[Op]) -> tuple[Op, ...]:
        bounds = {"induction": turn.args[0], "lower": const(0), "upper": dealt.rounds}
        loop = loop_with(bounds, {}, lambda _: (inside, {}), fresh_names(kernel))
        return (*(let(name, value) for name, value in dealt.once.items()), loop)

    return Walk(dealt.number, loops, dealt.symbols, each=dealt.each)
