"""Thread kernel in, thread kernel out: sums of a loop of products are stored before the next one needs registers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

from wavespec.ir.kernel import Kernel, Op, rewrite
from wavespec.ir.thread_ops import ACCUMULATE, FOR, MMA, NAMES_A_SYMBOL, PREFETCH, SLICE
from wavespec.lower.base import Pass
from wavespec.lower.thread_properties import is_of_lanes, symbols_are_in_scope, waves_are_loops
from wavespec.targets.machine import Machine


class StoreAtOnce(Pass):
    """Add the sums of a loop of products to memory right behind it, where other loops of products follow.

    Before: several loops of products, then all that goes to memory of their sums, each of which fill the registers.
    After:  what is added to memory of each is so right behind it: else all but the last one wait on the stack, from
            where LLVM takes some of them in every step of the others.
    Cases:  what something in between reads or writes, or says the place of, stays where it is.
    """

    name: ClassVar[str] = "store-at-once"
    requires = (is_of_lanes, symbols_are_in_scope, waves_are_loops)

    def applies_to(self, machine: Machine) -> bool:
        return not machine.concurrent_waves

    def apply(self, kernel: Kernel, machine: Machine) -> Kernel:
        def change(op: Op) -> tuple[Op, ...]:
            ops = _at_once(op.body.ops)
            return (op if ops is op.body.ops else replace(op, region=replace(op.body, ops=ops)),)

        return replace(kernel, body=rewrite(kernel.body, change, FOR))


def _at_once(ops: tuple[Op, ...]) -> tuple[Op, ...]:
    loops = [at for at, op in enumerate(ops) if op.is_(FOR) and op.results and any(one.is_(MMA) for one in op.walk())]
    if len(loops) < 2:
        return ops
    made = {value.name: at for at, op in enumerate(ops) for value in op.results}
    behind: defaultdict[int, list[Op]] = defaultdict(list)
    for at, op in enumerate(ops):
        if not op.is_(ACCUMULATE) or (start := made.get(op.operands[0].name)) is None:
            continue
        cut = ops[start] if ops[start].is_(SLICE) else None
        loop = start if cut is None else made.get(cut.operands[0].name, start)
        own = {id(one) for one in behind[loop]}
        between = [one for one in ops[loop + 1 : at] if id(one) not in own]
        if loop in loops[:-1] and not _meets(op, between):
            behind[loop] += [op] if cut is None or id(cut) in own else [cut, op]
    moved = {id(op) for own in behind.values() for op in own}
    if not moved:
        return ops
    kept = ((at, op) for at, op in enumerate(ops) if id(op) not in moved)
    return tuple(one for at, op in kept for one in (op, *behind[at]))


def _meets(store: Op, between: Sequence[Op]) -> bool:
    """Whether anything is done to the memory of a store, or says where that is."""
    inside = [one for op in between for one in op.walk()]
    named = {op["symbol"] for op in inside if op.is_(NAMES_A_SYMBOL)}
    meeting = (op for op in inside if op.get("memory") == store["memory"] and not op.is_(PREFETCH))
    return not named.isdisjoint(store.symbols) or any(meeting)
