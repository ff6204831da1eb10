"""Tile kernel in, tile kernel out: what a step joins along several dims, it joins along the dim of its loop last."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import replace
from math import prod
from typing import ClassVar

from wavespec.ir.kernel import Kernel, Op, Value, rewrite
from wavespec.ir.rewriting import renamed, uses_in
from wavespec.ir.tile_ops import CAST, ITERATE, REDUCE
from wavespec.lower.base import Pass
from wavespec.lower.tile_properties import tiles_are_placed
from wavespec.targets.machine import Machine

_FEW = 16
"""Elements of a row that lanes join as long as waves exchange those of all rows."""


class JoinStepsLast(Pass):
    """Join along the dim of a loop last what its steps join along several dims.

    Before: the reductions of a step stand in the order in which the spec names their dims, and behind a loop that was
            in another one a ``cast`` gives a value its own type under another name.
    After:  where a loop carries what the last of them makes, that one is along the dim of the loop, and no such cast
            is between it and the next step: `DeferReductions` can leave it to the end, so that no step waits for other
            waves.  What the others join is a part of a row, which a lane or a wave has: of the dim of a loop that was
            in this one.  Where waves share out another dim, that is last, so that they hand on what is left of a tile
            and not all of it.  Rows of few elements stay, which lanes would join across each other in each step.
    """

    name: ClassVar[str] = "join-steps-last"
    requires = (tiles_are_placed,)

    def applies_to(self, machine: Machine) -> bool:
        return machine.concurrent_waves

    def apply(self, kernel: Kernel, machine: Machine) -> Kernel:
        del machine
        of_loops = {split.dim for split in kernel.distribution.loops}
        of_waves = {split.dim for split in kernel.distribution.waves}

        def change(op: Op) -> tuple[Op, ...]:
            return (_with_loop_last(_without_casts(op, of_waves), of_loops, of_waves),)

        return replace(kernel, body=rewrite(kernel.body, change, ITERATE))


def _without_casts(loop: Op, of_waves: Set[str]) -> Op:
    """The loop with what a cast to the same type is of, a reduction or what a loop found, in place of what it makes."""
    casts = {op.result.name: op for op in loop.body.ops if op.is_(CAST) and op.result.type == op.operands[0].type}
    found = {value for op in loop.body.ops if op.is_(ITERATE) for value in op.results}
    same: dict[str, Value] = {}
    for argument, last in zip(loop.body.arguments, loop.body.yields, strict=True):
        value = casts[last.name].operands[0] if last.name in casts else last
        chain = _chain(loop, argument, value) if last.name in casts else []
        meet = not _takes_one(loop) or any(op["dim"] in of_waves for op in chain)
        if last.name in casts and (value in found or (chain and meet)):
            same[last.name] = value
    if not same:
        return loop
    ops = tuple(renamed(op, same) for op in loop.body.ops if not {value.name for value in op.results} & {*same})
    yields = tuple(same.get(value.name, value) for value in loop.body.yields)
    return replace(loop, region=replace(loop.body, ops=ops, yields=yields))


def _with_loop_last(loop: Op, of_loops: Set[str], of_waves: Set[str]) -> Op:
    made: dict[str, Op] = {}
    for argument, last in zip(loop.body.arguments, loop.body.yields, strict=True):
        chain = _chain(loop, argument, last)
        order = _order(loop, chain, of_waves)
        dims = [op["dim"] for op in order]
        if order == chain or not {*dims} <= of_loops:
            continue
        tile = chain[0].operands[0].tile
        if not 1 < prod(tile.extent(dim) for dim in dims[:-1]) <= _FEW:
            made |= {op.result.name: other for op, other in zip(chain, _turned(chain, order), strict=True)}
    ops = tuple(made[op.result.name] if op.is_(REDUCE) and op.result.name in made else op for op in loop.body.ops)
    return replace(loop, region=replace(loop.body, ops=ops)) if made else loop


def _order(loop: Op, chain: list[Op], of_waves: Set[str]) -> list[Op]:
    """The reductions with that of the loop last; where waves meet in each step nevertheless, with those that they meet
    for."""
    others = {op["dim"] for op in chain if op["dim"] != loop["dim"]}
    later = of_waves if _takes_one(loop) or others & of_waves else {loop["dim"]}
    return sorted(chain, key=lambda op: op["dim"] in later)


def _takes_one(loop: Op) -> bool:
    """Whether a step has one element, for which nobody meets."""
    return loop.get("step") is not None and loop["step"].value == 1


def _chain(loop: Op, argument: Value, last: Value) -> list[Op]:
    """Reductions of which each joins what the one before it makes, and nothing else takes; the last one goes on from
    what the loop carries."""
    makers = {value.name: op for op in loop.body.ops for value in op.results}
    op, chain = makers.get(last.name), list[Op]()
    while op is not None and op.is_(REDUCE) and op.operands[1:] == (() if chain else (argument,)):
        if chain and (op["function"] != chain[0]["function"] or uses_in(loop.body, op.result) != 1):
            break
        chain.insert(0, op)
        op = makers.get(op.operands[0].name)
    return chain


def _turned(chain: Sequence[Op], order: Sequence[Op]) -> Iterator[Op]:
    """The chain in another order of its dims: operations stay where they are, and join others."""
    value = chain[0].operands[0]
    for op, other in zip(chain, order, strict=True):
        tile = replace(value.tile.without({other["dim"]}), dtype=op.result.tile.dtype)
        result = op.result if op is chain[-1] else replace(op.result, type=tile)
        yield replace(op, operands=(value, *op.operands[1:]), results=(result,), attributes=other.attributes)
        value = result
