"""Thread kernel in, thread kernel out: written-out products with a row that is outside of a tensor are left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import groupby
from typing import ClassVar, Final

from wavespec.ir.expr import Expr, const
from wavespec.ir.kernel import Kernel, Op, Region, Value, attribute_pairs, rewrite
from wavespec.ir.thread import Mask
from wavespec.ir.thread_ops import DOT, FOR, LOAD
from wavespec.lower.base import Pass, fresh_names
from wavespec.lower.skip_zeros import one_where
from wavespec.lower.thread_properties import is_of_lanes
from wavespec.targets.machine import Machine

_LEAST: Final = 128
"""Products of one row that are worth a branch, which a machine guesses wrong where an image begins or ends."""
_MOST: Final = 256
"""More of them keep compilers from using registers well once they stand in a loop of their own."""


class SkipRows(Pass):
    """Leave out, of the products that a step of a loop has written out, those with a row that is outside of a tensor.

    Before: a step loads vectors at the places of a mapping, several with a check in common that others of the step do
            not have, as pixels of one row of a window have, and multiplies them by a matrix, one row after the other.
    After:  products of such a row, and its loads, are in a loop of one step, or of none where the row is outside.
    Cases:  as in ``skip-zeros``, what is multiplied by the zeros is not seen: an infinity, or NaN, leaves no NaN.
    """

    name: ClassVar[str] = "skip-rows"
    requires = (is_of_lanes,)

    def applies_to(self, machine: Machine) -> bool:
        return not machine.concurrent_waves

    def apply(self, kernel: Kernel, machine: Machine) -> Kernel:
        fresh = fresh_names(kernel)
        mapped = {memory.name for memory in kernel.memories if memory.mapped and memory.role == "input"}

        def change(loop: Op) -> tuple[Op, ...]:
            ops = _by_rows(loop, mapped, fresh)
            return (replace(loop, region=replace(loop.body, ops=ops)),)

        return replace(kernel, body=rewrite(kernel.body, change, FOR))


def _by_rows(loop: Op, mapped: set[str], fresh: Callable[[str], str]) -> tuple[Op, ...]:
    """What a step does, its rows in loops of their own."""
    loads = {
        op.result.name: op for op in loop.body.ops if op.is_(LOAD) and op["memory"] in mapped and op["valid"] is None
    }
    checks = {name: frozenset(op["mask"]) for name, op in loads.items()}
    every = [*checks.values()]
    shared = every[0].intersection(*every) if every else frozenset[tuple[Expr, Expr]]()
    own = {
        name: tuple(pair for pair in loads[name]["mask"] if pair not in shared and _is_of(pair, loop["induction"]))
        for name in loads
    }

    def row(op: Op) -> Mask | None:
        return own.get(op.operands[0].name) if op.is_(DOT) and op["runs"] == 1 else None

    made, moved = list[Op](), set[str]()
    for mask, found in groupby(loop.body.ops, row):
        run = tuple(found)
        if not mask or not _LEAST <= len(run) <= _MOST or not _are_chains(run, loop.body):
            made += run
            continue
        inside = _loads_of(run, loop.body.ops, loads)
        moved |= {op.result.name for op in inside}
        made.append(_one_step([op.with_(mask=_without(op, mask)) for op in inside], run, loop, mask, fresh))
    if not moved:
        return loop.body.ops
    return tuple(op for op in made if not (op.is_(LOAD) and op.result.name in moved))


def _are_chains(run: Sequence[Op], body: Region) -> bool:
    """Whether what one of these products adds up to is for the next one alone, but for the last of each sum."""
    uses = Counter(value.name for values in (body.yields, *(op.operands for op in body.ops)) for value in values)
    added = {op.operands[2].name for op in run}
    return all(uses[op.result.name] == 1 for op in run if op.result.name in added)


def _is_of(pair: tuple[Expr, Expr], induction: str) -> bool:
    return any(induction in side.symbols for side in pair)


def _without(load: Op, mask: Mask) -> Mask:
    return tuple(pair for pair in load["mask"] if pair not in mask)


def _loads_of(run: Sequence[Op], ops: Sequence[Op], loads: dict[str, Op]) -> list[Op]:
    """The loads that nothing but these products takes, in the order in which they stand."""
    inside = {id(op) for op in run}
    others = {value.name for op in ops if id(op) not in inside for value in op.operands}
    taken = {op.operands[0].name for op in run} - others
    return [op for name, op in loads.items() if name in taken]


def _one_step(inside: Sequence[Op], run: Sequence[Op], around: Op, mask: Mask, fresh: Callable[[str], str]) -> Op:
    """Products that add up to sums from in front of them, as a loop that carries these."""
    given, arguments, now = list[Value](), list[Value](), dict[str, int]()
    ops, last = list[Op](), list[Value]()
    for op in run:
        before = op.operands[2]
        at = now.pop(before.name, None)
        if at is None:
            at = len(given)
            given.append(before)
            arguments.append(Value(fresh(before.name), before.type))
            last.append(before)
            before = arguments[at]
        now[op.result.name] = at
        last[at] = op.result
        ops.append(replace(op, operands=(*op.operands[:2], before)))
    yields = tuple(Value(fresh(value.name), value.type) for value in last)
    renamed = {value.name: new for value, new in zip(last, yields, strict=True)}
    ops = [
        replace(
            op,
            operands=tuple(renamed.get(value.name, value) for value in op.operands),
            results=tuple(renamed.get(value.name, value) for value in op.results),
        )
        for op in ops
    ]
    bounds = {"lower": const(0), "upper": one_where(mask), "step": const(1)}
    attributes = attribute_pairs({"induction": fresh("row"), **bounds, "unroll": 1})
    region = Region(tuple(arguments), (*inside, *ops), yields)
    return Op("for", tuple(given), tuple(last), attributes, region, around.span)
