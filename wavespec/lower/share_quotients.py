"""Thread kernel in, thread kernel out: elements whose places are one by a quotient are loaded once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import ClassVar, Final

from wavespec.ir.expr import Expr, at_most, const, maximum, minimum, symbol, total
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
    After:  where the first and the last quotient are one, and the last place is there, a step divides once and loads
            once; else it is as it was. Both stand in loops of one step at most.  Loops of products stay.
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
            low = apart.substitute({op["induction"]: op["lower"]}).low
            if low is not None and low > 0:  # as of what is left behind whole steps
                return (op,)
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
    """How far the last quotient is from the first, and how far beyond a size the last place is; then the operations
    where both are 0. None where that would not save many loads."""
    stored = {op["memory"] for op in ops if op.is_(WRITES_MEMORY) and op.get("memory")}
    for quotients in _families(ops):
        first, last = quotients[0], quotients[-1]
        known, (dropped, beyond) = dict.fromkeys(quotients, first), _checks_of_last(ops, quotients)
        names, kept = dict[str, Value](), list[Op]()
        loaded: dict[object, Value] = {}
        for op in ops:
            one = renamed(with_nodes(_without(op, dropped), known), names)
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
            return last - first + beyond, kept
    return None


def _families(ops: Sequence[Op]) -> Iterator[list[Expr]]:
    """Quotients by one size of numbers that are a constant apart, in order; then of numbers each of which is as large
    as the one before or larger, as those of channels are which a size divides, ``(C * at + C * 3) // S``."""
    loads = [op for op in ops if op.is_(LOAD) and op.result.vector.elements == 1]
    found: defaultdict[tuple[Expr, Expr], set[Expr]] = defaultdict(set)
    grown: defaultdict[Expr, dict[Expr, None]] = defaultdict(dict)
    for op in loads:
        for node in op["offset"].walk():
            if node.kind == "floordiv" and not node.args[1].is_const:
                number = node.args[0]
                found[number - number.constant_part(), node.args[1]].add(node)
                grown[node.args[1]][node] = None
    for quotients in found.values():
        if len(quotients) >= _FEWEST:
            yield sorted(quotients, key=lambda one: one.args[0].constant_part())
    for quotients in map(list, grown.values()):
        if len(quotients) >= _FEWEST and _are_in_order([one.args[0] for one in quotients]):
            yield quotients


def _are_in_order(numbers: Sequence[Expr]) -> bool:
    return all(at_most(one, other) for one, other in pairwise(numbers))


_Checks = set[tuple[Expr, Expr]]


def _checks_of_last(ops: Sequence[Op], quotients: Sequence[Expr]) -> tuple[_Checks, Expr]:
    """Checks of places that grow from one load of a memory to the next one, of which the last is all of them; and how
    far beyond their sizes the last places are."""
    asked: defaultdict[tuple[str, Expr, int], list[Expr]] = defaultdict(list)
    for op in ops:
        if op.is_(LOAD) and not set(quotients).isdisjoint(op["offset"].walk()):
            for number, (place, size) in enumerate(op["mask"]):
                asked[op["memory"], size, number].append(place)
    dropped, beyond = _Checks(), dict[Expr, None]()
    for (_, size, _), places in asked.items():
        if places[0] is not places[-1] and _are_in_order(places):
            dropped |= {(place, size) for place in places}
            beyond[maximum(places[-1] - size + 1, 0)] = None
    return dropped, total((one, 1) for one in beyond)


def _without(op: Op, checks: _Checks) -> Op:
    if not checks or not op.is_(LOAD) or checks.isdisjoint(op["mask"]):
        return op
    return op.with_(mask=tuple(pair for pair in op["mask"] if pair not in checks))
