"""Thread kernel in, thread kernel out: elements whose places are one by a quotient are loaded once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import ClassVar, Final

from wavespec.ir.expr import Expr, const, maximum, minimum, symbol
from wavespec.ir.kernel import Kernel, Op, Region, Value, rewrite
from wavespec.ir.rewriting import copied, renamed, with_nodes
from wavespec.ir.thread_ops import BROADCAST, DOT, FOR, LOAD, MMA, PACK, WRITES_MEMORY
from wavespec.lower.base import Pass, fresh_names
from wavespec.lower.thread_properties import is_of_lanes, symbols_are_in_scope
from wavespec.targets.machine import Machine

_FEWEST: Final = 16
"""Loads of single elements that a step has to have less."""


class ShareQuotients(Pass):
    """Load what elements side by side have in common once, in steps in which they do.

    Before: a step of a loop loads one element for each of its own, at places that differ in the number that is divided
            by a size: the weight of each pixel's channel, ``weight[(at + 0) // S], weight[(at + 1) // S], ..``.
    After:  where the first and the last quotient are one, a step divides once and loads once; else it is as it was.
            Both stand in loops of one step at most.  Loops of products stay.
    """

    name: ClassVar[str] = "share-quotients"
    requires = (is_of_lanes, symbols_are_in_scope)

    def applies_to(self, machine: Machine) -> bool:
        return not machine.concurrent_waves

    def apply(self, kernel: Kernel, machine: Machine) -> Kernel:
        fresh, added = fresh_names(kernel), list[Expr]()

        def change(op: Op) -> tuple[Op, ...]:
            shared = _shared(op.body.ops) if _is_plain(op) else None
            if shared is None:
                return (op,)
            apart, ops = shared
            same, other = (symbol(f"{op['induction']}.{word}", 0, 1) for word in ("same", "other"))
            added.extend((same, other))
            names = dict[str, Value]()
            alike = [copied(one, fresh, names) for one in ops]
            both = _where(op, same, maximum(1 - apart, 0), alike), _where(op, other, minimum(apart, 1), op.body.ops)
            return (replace(op, region=replace(op.body, ops=both)),)

        body = rewrite(kernel.body, change, FOR)
        return replace(kernel.with_symbols(*added), body=body)


def _is_plain(loop: Op) -> bool:
    within = any(op.is_(FOR, MMA, DOT) for op in loop.body.ops)
    return not (loop.operands or within or loop.get("once") or loop.get("goes_on") is not None)


def _where(loop: Op, index: Expr, steps: Expr, ops: Sequence[Op]) -> Op:
    """A loop of one step or none."""
    counted = loop.with_(induction=index.args[0], lower=const(0), upper=steps, step=const(1))
    return replace(counted, region=Region((), tuple(ops), ()))


def _shared(ops: Sequence[Op]) -> tuple[Expr, list[Op]] | None:
    """How far the last quotient is from the first, and the operations where it is the first; None where that would not
    save many loads."""
    stored = {op["memory"] for op in ops if op.is_(WRITES_MEMORY) and op.get("memory")}
    for quotients in _families(ops):
        first, last = quotients[0], quotients[-1]
        known = dict.fromkeys(quotients, first)
        names, kept = dict[str, Value](), list[Op]()
        loaded: dict[object, Value] = {}
        for op in ops:
            one = renamed(with_nodes(op, known), names)
            if one.is_(LOAD) and one["memory"] not in stored:
                key = one.attributes, one.result.type
                if key in loaded:
                    names[one.result.name] = loaded[key]
                    continue
                loaded[key] = one.result
            elif one.is_(PACK) and len({*one.operands}) == 1 and one.operands[0].vector.elements == 1:
                one = replace(one, name=BROADCAST.name, operands=one.operands[:1])
            kept.append(one)
        if len(ops) - len(kept) >= _FEWEST:
            return last - first, kept
    return None


def _families(ops: Sequence[Op]) -> Iterator[list[Expr]]:
    """Quotients by one size of numbers that are a constant apart, in order."""
    loads = [op for op in ops if op.is_(LOAD) and op.result.vector.elements == 1]
    found: defaultdict[tuple[Expr, Expr], set[Expr]] = defaultdict(set)
    for op in loads:
        for node in op["offset"].walk():
            if node.kind == "floordiv" and not node.args[1].is_const:
                number = node.args[0]
                found[number - number.constant_part(), node.args[1]].add(node)
    for quotients in found.values():
        if len(quotients) >= _FEWEST:
            yield sorted(quotients, key=lambda one: one.args[0].constant_part())
