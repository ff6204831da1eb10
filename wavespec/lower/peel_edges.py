"""Tile kernel in, tile kernel out: loops over tiles check bounds in their last step alone."""

from __future__ import annotations

import functools
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import replace
from typing import ClassVar

from wavespec.ir.expr import Expr, ceildiv, const, maximum, minimum
from wavespec.ir.kernel import Kernel, Op, Value, rewrite
from wavespec.ir.rewriting import copied
from wavespec.ir.tile_ops import BIND, COPY, ELEMENTWISE, ITERATE, MMA, READ, REDUCE, SCALAR
from wavespec.lower.base import Pass, fresh_names
from wavespec.lower.index_bounds import fails_beyond, holds_from, holds_until
from wavespec.lower.stands_once import stands_once
from wavespec.lower.tile_properties import edges_are_masked, tiles_are_placed, whole_steps_check_nothing
from wavespec.targets.machine import Machine

_Bounds = Callable[[Iterable[Op], str, str, Mapping[str, Expr]], dict[str, Expr]]


class PeelEdges(Pass):
    """Run the whole tiles of a loop without bound checks, and what is left behind them with.

    Before: operations in a loop have ``masked`` dims wherever the last tile may be partial.
    After:  a loop over a dim that is masked in it stands there twice: up to the last whole tile, with nothing masked
            along the dim, and from there on (``lower``) to the end, as it was.  Loops that a schedule names, and
            loops of matrix products, stay one: other passes overlap their steps.  Where waves only copy these are
            consumers, whose steps overlap later, and where a machine has no such waves lanes would compare places in
            every step: there the first loop ends where comparisons of indices begin to fail, too,
            and takes for granted that they hold; where some hold from a place on, as those of a window do, one more
            loop is in front of it, which ends there.  A loop takes for granted what holds in all of its steps; for the
            rest it stays as it was.  Copies of other waves stay as they are, and so do loops in whose steps a lane
            reads a thousand elements one by one, and where waves take turns those over two strips of a tile: they would
            be most of the text, several times.
    """

    name: ClassVar[str] = "peel-edges"
    requires = (tiles_are_placed, edges_are_masked)
    ensures = (whole_steps_check_nothing,)
    drops = (edges_are_masked,)

    def apply(self, kernel: Kernel, machine: Machine) -> Kernel:
        scheduled = {schedule.loop for schedule in kernel.distribution.schedules}
        fresh = fresh_names(kernel)
        bound = {op.operands[0].name: kernel.symbol(op["symbol"]) for op in kernel.body if op.is_(BIND)}
        bound |= {op.result.name: op["number"] for op in kernel.body if op.is_(SCALAR) and _is_whole(op)}

        def change(op: Op) -> tuple[Op, ...]:
            if op.node in scheduled or op["unroll"] == 0:
                return (op,)
            if op["step"] == const(1):  # of single elements, only the step of an empty dim checks bounds
                return (op,)
            if any(op.get(key) is not None for key in ("stride", "goes_on")):
                return (op,)
            if stands_once(op, kernel, machine):
                return (op,)
            inside = [inner for inner in op.walk() if inner is not op]
            has_products = any(inner.is_(MMA) for inner in inside)

            def is_checked(inner: Op) -> bool:
                return _is_masked(inner, op) and not (kernel.producers and has_products and inner.is_(COPY))

            stand_twice = has_products and (kernel.producers or _leaves_out(op, machine))
            has_start = op.get("lower") is not None and kernel.distribution.split == 1 and machine.concurrent_waves
            before, holds = dict[str, Expr](), dict[str, Expr]()
            if stand_twice and kernel.distribution.split == 1:
                before, holds = (_chosen(op, bounds, bound) for bounds in (holds_from, holds_until))
            elif has_products or has_start:
                return (op,)
            if not before and not holds and not any(map(is_checked, inside)):
                return (op,)
            start = _start(op, _end(kernel, op), before)
            flags = before | holds
            if start is None:
                return _peeled(op, _end(kernel, op), flags, holds, is_checked, fresh)
            names = dict[str, Value]()
            edge = copied(op, fresh, names).with_(extent=start)
            held = {names[name].name for name in _held_before(before, holds, op["step"].value)}
            edge = _granted(edge, held)
            if not held.isdisjoint(fails_beyond(edge.body.ops, op["dim"], kernel.all_sizes)):
                # What is copied is checked all the same: nobody reads outside for a flag that holds.
                edge = _whole(edge, op, lambda inner: is_checked(inner) and not inner.is_(COPY, READ))
            rest = replace(op.with_(lower=start), operands=edge.results)
            whole, last = _peeled(rest, _end(kernel, op), flags, holds, is_checked, fresh)
            return edge, whole, _granted(last, before)  # no step of it begins earlier

        return replace(kernel, body=rewrite(kernel.body, change, ITERATE))


def _is_whole(scalar: Op) -> bool:
    """Whether a number of the call is one of 32 bits, in which lanes compare places."""
    return scalar.result.tile.dtype.name == "i32"


def _end(kernel: Kernel, loop: Op) -> Expr:
    """Where the elements end that a loop has; one over strips of a tile ends with the last strip, of which there may be
    only a part."""
    extent, size = loop["extent"], kernel.all_sizes[loop["dim"]]
    return minimum(extent, size) if extent.divisor % loop["step"].value == 0 else extent


def _chosen(loop: Op, bounds: _Bounds, outside: Mapping[str, Expr]) -> dict[str, Expr]:
    """The flags by which elements are chosen in a loop and that hold up to, or from, somewhere along its dim, and where
    that is; ``outside``: symbols of numbers."""
    chosen = {
        op.operands[0].name
        for op in loop.body.ops
        if op.is_(ELEMENTWISE) and op["function"] == "where" and op.operands[1].tile.dims == op.result.tile.dims
    }
    held = bounds(loop.body.ops, loop["dim"], loop["induction"], outside)
    return {name: bound for name, bound in held.items() if name in chosen}


def _start(loop: Op, end: Expr, before: Mapping[str, Expr]) -> Expr | None:
    """Where the steps begin in which all the flags hold, or where the loop ends."""
    if not before:
        return None
    lower, step = loop.get("lower") or const(0), loop["step"]
    away = maximum(functools.reduce(maximum, before.values()) - lower, 0)
    return minimum(lower + ceildiv(away, step.value) * step, maximum(end, lower))


def _held_before(before: Mapping[str, Expr], holds: Mapping[str, Expr], step: int) -> list[str]:
    """The flags of ``holds`` that hold in all steps in front of those in which ``before`` do: such a step ends less
    than a step behind the last of these places."""
    return [
        name
        for name, until in holds.items()
        if all((room := (until - place).low) is not None and room >= step - 1 for place in before.values())
    ]


def _granted(loop: Op, flags: Container[str]) -> Op:
    """The loop in whose steps these flags hold for all elements."""

    def change(op: Op) -> tuple[Op, ...]:
        if op["function"] == "where" and op.operands[0].name in flags:
            return (Op("cast", op.operands[1:2], op.results, span=op.span, node=op.node),)
        return (op,)

    return replace(loop, region=replace(loop.body, ops=rewrite(loop.body.ops, change, ELEMENTWISE)))


def _whole(loop: Op, written: Op, is_checked: Callable[[Op], bool]) -> Op:
    """The loop, as it is ``written``, over steps that lie inside of its dim."""
    ops = rewrite(loop.body.ops, lambda op: (_unmasked(op, written) if is_checked(op) else op,))
    return replace(loop, region=replace(loop.body, ops=ops))


def _peeled(
    loop: Op,
    end: Expr,
    flags: Iterable[str],
    holds: Mapping[str, Expr],
    is_checked: Callable[[Op], bool],
    fresh: Callable[[str], str],
) -> tuple[Op, Op]:
    names: dict[str, Value] = {}
    lower = loop.get("lower") or const(0)
    span = functools.reduce(minimum, holds.values(), end) - lower
    span = maximum(span, 0) if span.low is None or span.low < 0 else span
    whole = lower + span - span % loop["step"]
    first = copied(loop, fresh, names).with_(extent=whole)
    first = _whole(_granted(first, {names[name].name for name in flags}), loop, is_checked)
    return first, replace(loop.with_(lower=whole), operands=first.results)


def _leaves_out(loop: Op, machine: Machine) -> bool:
    """Whether lanes compare places along the dim of a loop of products in each step, where the machine has no other
    waves that could use the time."""
    return machine.whole_steps_apart and any(op.is_(REDUCE) and _is_masked(op, loop) for op in loop.body.ops)


def _is_masked(op: Op, loop: Op) -> bool:
    """Whether an operation checks bounds along the dim of the loop, of a tile that starts where the step does."""
    masked = op.get("masked")
    origin: dict[str, Expr] = dict(op.get("origin") or ())
    start = origin.get(loop["dim"])
    if not masked or start is None or start.kind != "symbol" or start.args[0] != loop["induction"]:
        return False
    return op["dim"] == loop["dim"] if masked is True else loop["dim"] in masked


def _unmasked(op: Op, loop: Op) -> Op:
    masked = op["masked"]
    return op.with_(masked=masked is not True and tuple(dim for dim in masked if dim != loop["dim"]))
