"""Thread kernel in, thread kernel out: what a loop computes anew in every iteration without need moves in front of
it."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from wavespec.ir.declarations import Group
from wavespec.ir.expr import const, less
from wavespec.ir.kernel import Kernel, Op, rewrite
from wavespec.ir.thread_ops import BIND, FOR, LET, LOAD, NAMES_A_SYMBOL, PURE
from wavespec.lower.base import Pass
from wavespec.lower.load_ahead import can_load_ahead
from wavespec.lower.thread_properties import invariants_are_outside, is_of_lanes, symbols_are_in_scope, values_are_used
from wavespec.targets.machine import Machine


class HoistInvariants(Pass):
    """Move operations out of loops they do not depend on, innermost loops first.

    Before: loop bodies as lowered, one after another.
    After:  arithmetic on values from outside, and loads of inputs at an offset that uses neither the induction nor
            a symbol that the body defines, stand before the loop.  In front of a loop that may run zero times only
            masked loads move, masked by whether it runs as well.  Index arithmetic is not an operation at this level:
            the emitter places each part of an expression in the outermost block where it can be computed
            (``emit/indices.py``).
    """

    name: ClassVar[str] = "hoist-invariants"
    requires = (is_of_lanes, symbols_are_in_scope)
    ensures = (invariants_are_outside,)
    drops = (values_are_used,)

    def apply(self, kernel: Kernel, machine: Machine) -> Kernel:
        inputs = {memory.name for memory in kernel.memories if memory.role == "input"}
        named = BIND | LET if can_load_ahead(kernel) else BIND  # others have no registers for what all tiles share

        def change(op: Op) -> tuple[Op, ...]:
            if op.get("once"):  # a branch is there to leave things out
                return (op,)
            before, inside = _split(op, inputs, named)
            if not before:
                return (op,)
            return (*before, replace(op, region=replace(op.body, ops=inside)))

        return replace(kernel, body=rewrite(kernel.body, change, FOR))


def _split(loop: Op, inputs: set[str], named: Group) -> tuple[tuple[Op, ...], tuple[Op, ...]]:
    """Operations that can stand before the loop, and those that stay."""
    asked = loop.get("goes_on")
    enters = ((loop["lower"], loop["upper"]), *(() if asked is None else ((const(0), asked),)))
    runs = asked is None and less(loop["lower"], loop["upper"])
    changing = {loop["induction"], *(op["symbol"] for op in loop.body.ops if op.is_(NAMES_A_SYMBOL))}
    local = {value.name for value in loop.body.arguments}
    before: list[Op] = []
    inside: list[Op] = []
    for op in loop.body.ops:
        pure = op.is_(PURE) or (op.is_(LOAD) and op["memory"] in inputs and (runs or op["mask"]))
        binds = op.is_(named) and (asked is None or op["symbol"] not in asked.symbols)
        moves = pure or binds
        if moves:
            symbols = op["value"].symbols if op.is_(LET) else op.symbols
            moves = local.isdisjoint([value.name for value in op.operands]) and changing.isdisjoint(symbols)
        if moves and binds:
            changing.discard(op["symbol"])
        if moves and op.is_(LOAD) and not runs:
            op = op.with_(mask=(*enters, *op["mask"]))
        (before if moves else inside).append(op)
        if not moves:
            local.update([value.name for value in op.results])
    return tuple(before), tuple(inside)
