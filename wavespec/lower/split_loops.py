"""Tile kernel in, tile kernel out: workgroups share out the steps of loops and join what they have found."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import ClassVar

from wavespec.ir.expr import Expr, const
from wavespec.ir.kernel import Kernel, Op
from wavespec.ir.rewriting import substituted
from wavespec.ir.tile_ops import ITERATE, MMA, REDUCE
from wavespec.lower.base import Pass
from wavespec.lower.defer_reductions import is_deferred, reduction_carried
from wavespec.lower.fit_waves import wave_of
from wavespec.lower.split_k import SplitNotPossible
from wavespec.lower.tile_properties import tiles_are_placed, tiles_have_extents
from wavespec.schedule.buffer_ring import signal
from wavespec.targets.machine import Machine

_MET = "parts.met"


class SplitLoops(Pass):
    """Give each workgroup of a cluster a part of the steps of loops without products.

    Before: one workgroup takes all steps of the loops over a dim.
    After:  workgroup ``wg0`` of the cluster takes step ``wg0`` and those so many further on as there are workgroups;
            that one alone, without a loop, where there are at most as many.  Each ``reduce`` along the dim has a
            ``signal``, and the ``index`` of its own: it joins what all workgroups of the cluster have.
    Errors: ``split-not-possible`` at the schedule's workgroups.
    """

    name: ClassVar[str] = "split-loops"
    requires = (tiles_have_extents, tiles_are_placed)
    # `DeferReductions` moves what joins the shares behind the loops: `SplitK`, which runs then, ensures it of both.

    def apply(self, kernel: Kernel, machine: Machine) -> Kernel:
        plan = kernel.distribution
        if plan.split == 1 or any(op.is_(MMA) for op in kernel.walk()):
            return kernel
        for why, hint in _obstacles(kernel, machine):
            where = plan.workgroups_span or next((op.span for op in kernel.walk() if op.is_(ITERATE)), None)
            raise SplitNotPossible(where, plan.split, why, hint)
        loops = [op for op in kernel.body if op.is_(ITERATE)]
        reductions = [op for loop in loops for op in loop.body.ops if op.is_(REDUCE) and op["dim"] == loop["dim"]]
        numbers = {op.result.name: number for number, op in enumerate(reductions)}
        body = tuple(_shared_out(kernel, op, numbers) if op.is_(ITERATE) else op for op in kernel.body)
        # The first axis of a launch is the one that may be long: tiles are on it, behind the workgroups of each.
        joined = (1, *kernel.joined) if len(kernel.grid) > 1 else kernel.joined
        kernel = replace(kernel, body=body, joined=joined)
        if not numbers:
            return kernel
        met = signal(_MET, len(numbers), 1)
        return replace(kernel, memories=(*kernel.memories, met))


def _obstacles(kernel: Kernel, machine: Machine) -> Iterator[tuple[str, str]]:
    """Why the loops cannot be shared out, each with what to do about it."""
    plan, leave_out = kernel.distribution, "Leave out 'split'."
    loops = [op for op in kernel.body if op.is_(ITERATE)]
    if plan.split not in machine.clusters:
        sizes = " or ".join(map(str, machine.clusters))
        hint = f"Use {sizes} workgroups." if sizes else "Leave out 'split' for this target."
        yield f"{machine.variant} has no clusters of that size", hint
    if plan.roles.producers or plan.cluster > 1:
        hint = "Leave out 'producers' and 'cluster'."
        yield "all waves of a workgroup compute, and clusters are of those that share a tile", hint
    if len({loop["dim"] for loop in loops}) != 1 or not loops[0]["dim"]:
        yield "that takes loops over one dim", leave_out
    if any(op.get(key) is not None for op in loops for key in ("once", "lower", "stride", "goes_on")) or any(
        op.region for loop in loops for op in loop.walk()[1:]
    ):
        yield "that takes loops over a whole dim, and no branches", leave_out
    if any(loop["extent"].high is not None and loop["extent"].high <= loop["step"].value for loop in loops):
        yield "a step takes all of the dim", "Use a smaller tile, or leave out 'split'."
    for loop in loops:
        for number, argument in enumerate(loop.body.arguments):
            # Who has one step carries nothing, so that it needs no registers for parts.
            is_one = _most_steps(kernel, loop) == 1 and reduction_carried(loop, number) is not None
            if not is_one and not is_deferred(kernel, loop, number, machine):
                yield f"'{argument.name}' is not only what a reduction over the loop has so far", leave_out


def _most_steps(kernel: Kernel, loop: Op) -> int | None:
    """Of one workgroup of the cluster, whatever the size of the dim; nothing where that has no end."""
    most: int | None = loop["extent"].high
    return None if most is None else -(-most // (loop["step"].value * kernel.distribution.split))


def _shared_out(kernel: Kernel, loop: Op, numbers: dict[str, int]) -> Op:
    """The loop with the steps of one workgroup, and with reductions that join what all have."""
    rank, split = kernel.symbol("wg0"), kernel.distribution.split

    def joined(op: Op) -> Op:
        number = numbers.get(op.result.name) if op.is_(REDUCE) else None
        return op if number is None else op.with_(signal=_MET, index=const(number))

    ops = tuple(joined(op) for op in loop.body.ops)
    if _most_steps(kernel, loop) != 1:
        # Every other step, not a run of them: workgroups that run together read what lies together.
        every = loop.with_(lower=rank * loop["step"], step=loop["step"] * split)
        return replace(every, region=replace(loop.body, ops=ops))
    at: dict[str, Expr] = {loop["induction"]: rank * loop["step"]}
    if kernel.launched is not None:  # wave after wave of all workgroups, so that all have as many
        wave, own = wave_of(kernel, loop["dim"])
        at = {loop["induction"]: rank * own + kernel.symbol(wave) * (own * (split - 1))}
    region = replace(loop.body, ops=tuple(substituted(op, at) for op in ops))
    return replace(loop.with_(extent=loop["step"]), region=region)
