"""Tile kernel in, tile kernel out: a loop that looks for extremes carries their ranks, not elements and places."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar

from wavespec.ir.kernel import Kernel, Op, Value, rewrite
from wavespec.ir.rewriting import renamed
from wavespec.ir.tile_ops import ELEMENTWISE, ITERATE, REDUCE, TOPK
from wavespec.lower.base import Pass, fresh_names
from wavespec.lower.tile_properties import is_of_tiles
from wavespec.targets.machine import Machine

_RANK, _RANKED = "rank", "ranked_"
"""How functions begin that make a rank of an element and its place, and these of a rank (`wavespec.ops.ranks`)."""


class CarryRanks(Pass):
    """Take an extreme's rank apart behind the loop that looks for it, not in each step.

    Before: a step makes a rank of the element and the place that the loop carries, the largest of it and of those of
            the step, and of that the element and the place again; or the same of the several that `topk` finds.
    After:  where nothing else in the loop uses them, the loop carries the rank, so that its ``reduce`` is like any
            other one: lanes, waves and workgroups may join what they have behind the loop.  Elements of 64 bits keep
            their places apart: which of these count depends on the largest element.
    """

    name: ClassVar[str] = "carry-ranks"
    requires = (is_of_tiles,)

    def apply(self, kernel: Kernel, machine: Machine) -> Kernel:
        del machine
        fresh = fresh_names(kernel)

        def change(op: Op) -> tuple[Op, ...]:
            before, behind = list[Op](), list[Op]()
            for rank in [inner for inner in op.body.ops if _makes_rank(inner)]:
                if parts := _taken_apart(op, rank):
                    op = _with_rank(op, rank, parts, fresh, before, behind)
            return (*before, op, *behind)

        return replace(kernel, body=rewrite(kernel.body, change, ITERATE))


def _makes_rank(op: Op) -> bool:
    return op.is_(ELEMENTWISE) and op["function"].startswith(_RANK) and not op["function"].startswith(_RANKED)


def _taken_apart(loop: Op, rank: Op) -> dict[int, Op]:
    """By the numbers of the carried element and place that ``rank`` is made of, what makes them of the largest rank;
    nothing where the loop has another use for any of this."""
    body, last = loop.body, rank["function"].removeprefix(_RANK)
    if loop.get("goes_on") is not None or not all(value in body.arguments for value in rank.operands):
        return {}
    found = next((op for op in body.ops if op.is_(REDUCE | TOPK) and op.operands[1:] == (rank.result,)), None)
    if found is None or (found.is_(REDUCE) and found["function"] != "maximum"):
        return {}
    parts = {
        number: next((op for op in body.ops if body.yields[number] in op.results), rank)
        for number in map(body.arguments.index, rank.operands)
    }
    functions = {op["function"] for op in parts.values() if op.is_(ELEMENTWISE) and op.operands == (found.result,)}
    elements = {f"{_RANKED}{kind}{last}" for kind in ("float", "whole")}
    if len(functions) != 2 or "ranked_place" not in functions or not functions & elements:
        return {}
    used = [v for op in body.ops for inner in op.walk() for v in _used(inner)] + [*body.yields]
    alone = (*rank.operands, rank.result, *(op.result for op in parts.values()))
    return parts if all(used.count(value) == 1 for value in alone) and used.count(found.result) == 2 else {}


def _used(op: Op) -> tuple[Value, ...]:
    return (*op.operands, *(op.region.yields if op.region else ()))


def _with_rank(
    loop: Op, rank: Op, parts: dict[int, Op], fresh: Callable[[str], str], before: list[Op], behind: list[Op]
) -> Op:
    """The loop with the largest rank as the last of what it carries; what is around it is appended."""
    body, (found, *_) = loop.body, next(iter(parts.values())).operands
    start, argument, end = (Value(fresh(rank.result.name), rank.result.type) for _ in range(3))
    starts = tuple(loop.operands[body.arguments.index(value)] for value in rank.operands)
    before.append(replace(rank, operands=starts, results=(start,)))
    behind += [replace(op, operands=(end,), results=(loop.results[number],)) for number, op in parts.items()]

    def put(values: tuple[Value, ...], value: Value) -> tuple[Value, ...]:
        return (*(one for number, one in enumerate(values) if number not in parts), value)

    gone = (rank, *parts.values())
    ops = tuple(renamed(op, {rank.result.name: argument}) for op in body.ops if op not in gone)
    region = replace(body, arguments=put(body.arguments, argument), ops=ops, yields=put(body.yields, found))
    return replace(loop, operands=put(loop.operands, start), results=put(loop.results, end), region=region)
