"""Tile kernel in, tile kernel out: workgroups share out the steps of the tiles that do not fill a round."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

from wavespec.diagnostics import WavespecError, Where
from wavespec.ir.dtype import DTYPES
from wavespec.ir.expr import Expr, ceildiv, const, maximum, minimum, symbol
from wavespec.ir.kernel import Kernel, Memory, Op, Region, attribute_pairs
from wavespec.ir.rewriting import substituted
from wavespec.ir.tile_ops import ITERATE, MMA, TILES_END
from wavespec.lower.base import Pass, fresh_names
from wavespec.lower.last_round import PART, PARTS, SHARED_TILE, LastRound
from wavespec.lower.shared_sums import waves_of_sum
from wavespec.lower.split_k import is_sum, is_total, values_of_zero
from wavespec.lower.tile_properties import products_have_instructions, tiles_are_placed, tiles_have_extents
from wavespec.lower.tile_walk import product
from wavespec.schedule.feeding import feeding
from wavespec.targets.machine import Machine


class LastRoundNotPossible(WavespecError, code="last-round-not-possible"):
    def __init__(self, where: Where, why: str) -> None:
        super().__init__(
            where, f"Workgroups cannot share out the last round: {why}.", hints=["Leave out 'last_round'."]
        )


class ShareLastRound(Pass):
    """Give each of several workgroups a part of the steps of a tile of the last round.

    Before: a workgroup takes all steps of the loop over its tile.
    After:  it takes those of its part of so many ``parts``, counted from 0: `WalkGrid` says which, or
            `PersistWorkgroups` where they stay.  Behind the loop ``shared_sum`` adds up what they have, in memory of
            the launch, in the one that is there last; what follows is in a branch that this one alone takes, but for
            what says where tiles end.  All of a cluster have the same part, each of a tile of its own.
    A plan of the compiler that asks for what is not possible is left as it is without, and so is every plan where the
    machine has one processor: no other waits beside its last tile.
    Errors: ``last-round-not-possible`` at the schedule's workgroups.
    """

    name: ClassVar[str] = "share-last-round"
    requires = (products_have_instructions, tiles_have_extents, tiles_are_placed)

    def apply(self, kernel: Kernel, machine: Machine) -> Kernel:
        plan = kernel.distribution
        if plan.last_round == 1:
            return kernel
        try:
            loop = _loop_to_share(kernel, machine)
        except LastRoundNotPossible:
            if not plan.is_planned:
                raise
            return replace(kernel, distribution=replace(plan, last_round=1))  # the spec did not ask for it
        # Tiles of a round: of each workgroup of a cluster there is one.
        together = machine.clusters[plan.cluster] if plan.cluster > 1 else machine.processors
        workers = together * (plan.resident if plan.persistent else 1)
        if workers == 1:  # which is never without a tile
            return replace(kernel, distribution=replace(plan, last_round=1))
        at, (sums,), fresh = kernel.body.index(loop), loop.results, fresh_names(kernel)
        own = replace(sums, name=fresh(sums.name))
        is_last, taken = symbol(fresh("is_last"), 0, 1), symbol(fresh("taken_by_last"), 0, 1)
        # Of waves that share out what a product sums over, each may have all of it.
        waves = max(waves_of_sum(kernel, op, machine) for op in loop.walk() if op.is_(MMA))
        elements = math.prod(sums.tile.extents) * waves
        inside, ends = _apart_from_ends(kernel.body[at + 1 :])
        last = LastRound(product((ceildiv(kernel.grid[0], plan.cluster), *kernel.grid[1:])), workers, plan.last_round)
        rank = symbol("rank", 0, plan.cluster - 1) if plan.cluster > 1 else const(0)
        handed = Memory(
            f"{sums.name}.handed",
            sums.tile.dtype,
            ("piece", "element"),
            ((const(last.most_pieces) if ends else last.pieces) * plan.cluster, const(elements)),
            "handed",
            span=loop.span,
        )
        arrived = Memory(f"{sums.name}.arrived", DTYPES["i32"], ("tile",), (const(workers * plan.cluster),), "counter")
        joined = {
            "memory": handed.name,
            "counter": arrived.name,
            "tile": SHARED_TILE * plan.cluster + rank,
            "part": PART,
            "parts": PARTS,
            "symbol": is_last.args[0],
        }
        branch = {
            "dim": "",
            "once": True,
            "induction": taken.args[0],
            "extent": is_last,
            "step": const(1),
            "unroll": 1,
        }
        body = (
            *kernel.body[:at],
            replace(_of_part(loop, kernel.symbol(loop["induction"])), results=(own,)),
            Op("shared_sum", (own,), (sums,), attribute_pairs(joined), span=loop.span),
            Op("iterate", (), (), attribute_pairs(branch), Region((), inside, ()), loop.span),
            *ends,
        )
        kernel = kernel.with_symbols(PART, PARTS, SHARED_TILE, is_last, taken, rank)
        return replace(kernel, body=body, memories=(*kernel.memories, handed, arrived))


def _of_part(loop: Op, induction: Expr) -> Op:
    """The steps of a part, counted from 0: places in rings of staged tiles are those of a loop over the whole tile."""
    extent, step = loop["extent"], loop["step"].value
    share = ceildiv(ceildiv(extent, step), PARTS) * step
    first = PART * share
    moved = substituted(loop.with_(extent=const(0)), {induction.args[0]: induction + first})
    return moved.with_(extent=minimum(share, maximum(extent - first, 0)))


def _apart_from_ends(ops: Sequence[Op]) -> tuple[tuple[Op, ...], tuple[Op, ...]]:
    """What is done with a tile, and what says where tiles end, which all parts have to know."""
    ends = [number for number, op in enumerate(ops) if op.is_(TILES_END)]
    known = sorted({*ends, *feeding(ops, ends)})
    return tuple(op for number, op in enumerate(ops) if number not in known), tuple(ops[number] for number in known)


def _loop_to_share(kernel: Kernel, machine: Machine) -> Op:
    plan = kernel.distribution

    def refuse(why: str) -> LastRoundNotPossible:
        return LastRoundNotPossible(plan.workgroups_span, why)

    if not (machine.counters and machine.processors and kernel.producers):
        raise refuse("that takes waves that only copy, and a machine that counts workgroups")
    if plan.split > 1 or plan.workers or plan.roles.order == "ping_pong":
        raise refuse("that takes workgroups of one processor each, which compute a tile at a time")
    loops = [op for op in kernel.body if op.is_(ITERATE)]
    if len(loops) != 1 or any(loops[0].get(key) is not None for key in ("once", "stride", "goes_on", "lower")):
        raise refuse("that takes one loop, over all tiles of its dim")
    (loop,) = loops
    zeros = values_of_zero(kernel.body)
    carried = (loop.body, loop.body.arguments[0], loop.body.yields[0]) if len(loop.results) == 1 else None
    if carried is None or not (is_sum(*carried) or is_total(*carried)):
        raise refuse("the loop has to make one sum of products")
    if loop.operands[0].name not in zeros:
        raise refuse("its sum starts from other numbers than 0")
    return loop
