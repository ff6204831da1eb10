"""Thread kernel in, thread kernel out: a loop of products has no step where all that it would multiply is outside of a
tensor."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

from wavespec.ir.expr import Expr, const, maximum, minimum
from wavespec.ir.kernel import Kernel, Op, Value, rewrite
from wavespec.ir.thread import Mask, decisive
from wavespec.ir.thread_ops import FOR, LOAD, MMA, PACK
from wavespec.lower.base import Pass
from wavespec.lower.same_quotients import quotients_apart
from wavespec.lower.thread_properties import is_of_lanes
from wavespec.targets.machine import Machine


class SkipZeros(Pass):
    """Leave out the steps of a loop of products that add zeros to sums, where that is known in front of it.

    Before: a loop adds products to sums, and nothing else; one operand of each is read at the places of a mapping, all
            of it with the same checks, which are the same in all steps: a tap of a convolution, for one pixel of
            several images.
    After:  where these places are outside of the tensor, the loop has no step.
    Cases:  what is multiplied by the zeros is not seen then: an infinity, or NaN, leaves no NaN in the sums.
    """

    name: ClassVar[str] = "skip-zeros"
    requires = (is_of_lanes,)

    def applies_to(self, machine: Machine) -> bool:
        return not machine.concurrent_waves

    def apply(self, kernel: Kernel, machine: Machine) -> Kernel:
        mapped = {memory.name for memory in kernel.memories if memory.mapped}

        def change(op: Op) -> tuple[Op, ...]:
            checks = _checks_of_all(op, mapped)
            return (op.with_(upper=op["upper"] * one_where(checks)) if checks else op,)

        return replace(kernel, body=rewrite(kernel.body, change, FOR))


def _checks_of_all(loop: Op, mapped: set[str]) -> Mask:
    """What holds in all steps of a loop or in none, and decides whether it adds anything; empty where nothing is known
    to."""
    body = loop.body
    if loop.get("goes_on") is not None or any(not op.is_(LOAD, PACK, MMA) for op in body.ops):
        return ()
    made, products = {op.result.name: op for op in body.ops}, [op for op in body.ops if op.is_(MMA)]
    sums = tuple(op.result for op in products), tuple(op.operands[2] for op in products)
    if not products or sums != (body.yields, body.arguments) or loop["lower"] != const(0) or loop.get("once"):
        return ()
    found = {_checks_of(op.operands[:2], made, mapped) for op in products}
    checks = found.pop()
    inside = {loop["induction"]}
    return checks if not found and all(inside.isdisjoint(side.symbols) for pair in checks for side in pair) else ()


def _checks_of(operands: tuple[Value, ...], made: Mapping[str, Op], mapped: set[str]) -> Mask:
    """What is checked of all elements of one operand together; empty where nothing is."""
    for operand in operands:
        loads = _loads(operand, made)
        masks = [decisive(op["mask"]) for op in loads]
        if loads and all(op["memory"] in mapped and op["valid"] is None for op in loads):
            if len({*masks}) == 1:
                return masks[0]
            return tuple(_of_all(masks)) if len({len(mask) for mask in masks}) == 1 else ()
    return ()


def _of_all(masks: Sequence[Mask]) -> Iterator[tuple[Expr, Expr]]:
    """Checks that fail where one check of each row does, as all of them are the same: one of the first row's, while the
    last one is in the same line."""
    for column in zip(*masks, strict=True):
        (left, right), *_ = column
        apart = [quotients_apart(side) for side in zip(*column, strict=True)]
        if None in apart:
            continue
        if all(one is const(0) for one in apart):
            if left.kind not in ("symbol", "mod"):  # these are inside wherever there is a step
                yield left, right
            continue
        others = [one for one in apart if one is not None and one is not const(0)]
        beyond = left + 1 - right
        for one in others:
            beyond = beyond * (1 - minimum(one, 1))
        yield beyond, const(1)


def _loads(value: Value, made: Mapping[str, Op]) -> list[Op]:
    """The loads that a value is packed of; none where it is made of anything else."""
    op = made.get(value.name)
    if op is None or not op.is_(LOAD, PACK):
        return []
    if op.is_(LOAD):
        return [op]
    parts = [_loads(part, made) for part in op.operands]
    return [load for part in parts for load in part] if all(parts) else []


def one_where(checks: Mask) -> Expr:
    """1 where all of them hold, else 0."""
    beyond = const(0)
    for left, right in checks:
        beyond = maximum(beyond, left + 1 - right)
    return 1 - minimum(beyond, 1)
