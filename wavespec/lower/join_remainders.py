"""Thread kernel in, thread kernel out: elements whose places are remainders side by side are loaded as a vector."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Final

from wavespec.ir.expr import Expr, const, maximum, minimum, symbol
from wavespec.ir.kernel import Kernel, Op, Value, attribute_pairs
from wavespec.ir.rewriting import copied, with_nodes, without_unused
from wavespec.ir.thread import ThreadBuilder
from wavespec.ir.thread_ops import DOT, LOAD, MMA, PACK, PURE
from wavespec.lower.base import Pass, fresh_names
from wavespec.lower.thread_properties import is_of_lanes, symbols_are_in_scope
from wavespec.targets.machine import Machine

_DIGITS: Final = ("mod", "floordiv")
_FEWEST: Final = 4
"""Elements of a vector that is worth a division of its own."""


class JoinRemainders(Pass):
    """Load elements side by side as a vector, or once, in steps in which their numbers have one quotient.

    Before: a vector is packed of single elements of an input, at places that are digits of numbers one apart: those of
            an element of a Kronecker product, ``y[(at + 0) % Q], y[(at + 1) % Q], ..`` and ``x[(at + 0) // Q], ..``.
    After:  where the first remainder leaves room for all of them below the size, they are loaded together, or what is
            one element is spread; else they are as they were, which is rare where sizes are a vector or more. Both
            stand in branches that hand the vector on. Kernels with products stay: they lay operands down once.
    """

    name: ClassVar[str] = "join-remainders"
    requires = (is_of_lanes, symbols_are_in_scope)

    def applies_to(self, machine: Machine) -> bool:
        return not machine.concurrent_waves

    def apply(self, kernel: Kernel, machine: Machine) -> Kernel:
        if any(op.is_(MMA, DOT) for op in kernel.walk()):
            return kernel
        joiner = _Joiner(kernel)
        body = joiner.block(kernel.body, {})
        if not joiner.symbols:
            return kernel
        body = without_unused(body, lambda op: op.is_(LOAD, PURE))
        return replace(kernel.with_symbols(*joiner.symbols), body=body)


@dataclass(frozen=True, slots=True)
class _Digits:
    """Symbols for remainder and quotient of a number."""

    rest: Expr
    quotient: Expr


_Known = dict[tuple[Expr, Expr], dict[int, _Digits]]
"""Of a number without its constant, and a size: digits of the number with each constant."""


class _Joiner:
    def __init__(self, kernel: Kernel) -> None:
        self.fresh = fresh_names(kernel)
        self.symbols: list[Expr] = []
        self.loads = {op.result.name: op for op in kernel.walk() if op.is_(LOAD)}
        self.inputs = {memory.name for memory in kernel.memories if memory.role == "input" and memory.space == "global"}

    def block(self, ops: Sequence[Op], known: _Known) -> tuple[Op, ...]:
        """The operations of a block; ``known``: what blocks around it have named."""
        known, result = {key: dict(digits) for key, digits in known.items()}, list[Op]()
        for op in ops:
            if op.region:
                op = replace(op, region=replace(op.region, ops=self.block(op.region.ops, known)))
            result += self._vector(op, known) if op.is_(PACK) else (op,)
        return tuple(result)

    def _vector(self, pack: Op, known: _Known) -> tuple[Op, ...]:
        single = [self.loads[one.name] for one in pack.operands if one.name in self.loads]
        if len(single) < max(_FEWEST, len(pack.operands)) or single[0]["memory"] not in self.inputs:
            return (pack,)
        numbers = _numbers(single)
        if numbers is None:
            return (pack,)
        whole, size = numbers[0]
        unchecked, inside = _without_growing_checks(single)
        if _together(pack, unchecked, numbers, _Digits(whole % size, whole // size), self.fresh) is None:
            return (pack,)
        lets, digits = self._digits(numbers[0], len(single), known)
        together = _together(pack, unchecked, numbers, digits, self.fresh)
        assert together is not None
        within = minimum(minimum(maximum(size - digits.rest - (len(single) - 1), 0), 1), inside)
        branch = self._symbol("apart", 1)
        # Places are computed as far out as they can be: in the branch, as the number of its step, 0, is part of them.
        single = [
            with_nodes(op, {whole % of: (whole + branch) % of, whole // of: (whole + branch) // of})
            for op, (whole, of) in zip(single, numbers, strict=True)
        ]
        rare = numbers[0][1].low is not None and numbers[0][1].low >= len(single)
        return *lets, *branches(pack, single, within, together, branch, self.fresh, rare=rare)

    def _digits(self, number: tuple[Expr, Expr], count: int, known: _Known) -> tuple[list[Op], _Digits]:
        """Digits of a number, and what names them: a division once, then a carry for each vector.

        Where a size is less than ``count``, a carry is not all of it; remainders are at least 0 then, too, and leave no
        room for a vector.
        """
        whole, size = number
        at = whole.constant_part()
        found = known.setdefault((whole - at, size), {})
        if at in found:
            return [], found[at]
        before, lets = found.get(at - count), list[Op]()

        def named(word: str, value: Expr) -> Expr:
            one = self._symbol(word)
            lets.append(Op("let", attributes=attribute_pairs({"symbol": one.args[0], "value": value})))
            return one

        if before is None:
            rest, quotient = whole % size, whole // size
        else:
            carry = named("carry", minimum(maximum(before.rest + (count + 1) - size, 0), 1))
            rest, quotient = before.rest + count - size * carry, before.quotient + carry
        found[at] = _Digits(named("rest", rest), named("quotient", quotient))
        return lets, found[at]

    def _symbol(self, word: str, most: int | None = None) -> Expr:
        self.symbols.append(symbol(self.fresh(word), 0, most))
        return self.symbols[-1]


def branches(
    pack: Op,
    single: Sequence[Op],
    within: Expr,
    together: tuple[Op, ...],
    induction: Expr,
    fresh: Callable[[str], str],
    *,
    rare: bool = False,
) -> tuple[Op, ...]:
    """The vector as it is loaded together where ``within`` is 1, else element by element, which may be rare."""
    build, kind, word = ThreadBuilder(fresh), pack.result.vector, induction.args[0]
    start = build.constant(0.0 if kind.dtype.is_float else 0, kind.dtype, kind.elements)
    passed = [(_named(start, fresh),) for _ in range(2)]
    found = build.loop(word, 0, within, 1, (start,), passed[0], together, together[-1].results, once=True)
    names = dict[str, Value]()
    alone = [copied(op, fresh, names) for op in {op.result.name: op for op in single}.values()]
    apart = copied(replace(pack, operands=tuple(names[one.name] for one in pack.operands)), fresh, names)
    build.loop(word, 0, 1 - within, 1, found, passed[1], (*alone, apart), apart.results, rare=rare)
    build.ops[-1] = replace(build.ops[-1], results=pack.results)
    return tuple(replace(op, span=pack.span) for op in build.ops)


def _named(value: Value, fresh: Callable[[str], str]) -> Value:
    return Value(fresh(value.name), value.type)


def _without_growing_checks(single: Sequence[Op]) -> tuple[Sequence[Op], Expr]:
    """Loads without checks of places that are one apart as the loads are, and 1 where the last of these hold, which are
    all of them then, else 0."""
    columns = list(zip(*(op["mask"] for op in single), strict=False))
    if any(len(op["mask"]) != len(columns) for op in single):
        return single, const(1)
    growing, inside = set[int](), const(1)
    for number, column in enumerate(columns):
        (first, size), last = column[0], column[-1][0]
        if all(end is size and place - first == const(at) for at, (place, end) in enumerate(column)):
            growing.add(number)
            inside = minimum(inside, maximum(size - last, 0))
    kept = [tuple(pair for number, pair in enumerate(op["mask"]) if number not in growing) for op in single]
    return [op.with_(mask=mask) for op, mask in zip(single, kept, strict=True)], inside


def _together(
    pack: Op, single: Sequence[Op], numbers: Sequence[tuple[Expr, Expr]], digits: _Digits, fresh: Callable[[str], str]
) -> tuple[Op, ...] | None:
    """The operations that make the vector where all numbers have one quotient; None where places do not follow from one
    digit, or checks differ."""
    changed = [
        with_nodes(op, {number % size: digits.rest + at, number // size: digits.quotient})
        for at, (op, (number, size)) in enumerate(zip(single, numbers, strict=True))
    ]
    one, vector = changed[0], pack.result
    if len({op.with_(offset=const(0)).attributes for op in changed}) > 1:
        return None
    if all(op["offset"] - one["offset"] == const(at) for at, op in enumerate(changed)):
        # What is checked is a vector where it is written out, without a branch.
        return None if one["mask"] else (replace(one, results=(_named(vector, fresh),)),)
    if any(op["offset"] != one["offset"] for op in changed):
        return None
    build, load = ThreadBuilder(fresh), replace(one, results=(_named(one.result, fresh),))
    build.broadcast(load.result, len(single))
    return load, *build.ops


def _numbers(single: Sequence[Op]) -> list[tuple[Expr, Expr]] | None:
    """Of each load the number whose digit is its place, and the size; numbers are one apart, sizes are not known."""
    found: defaultdict[tuple[Expr, Expr], list[set[Expr]]] = defaultdict(lambda: [set() for _ in single])
    for at, op in enumerate(single):
        for node in op["offset"].walk():
            if node.kind in _DIGITS and not node.args[1].is_const:
                number = node.args[0]
                found[number - number.constant_part(), node.args[1]][at].add(number)
    for (_, size), numbers in found.items():
        if any(len(one) != 1 for one in numbers):
            continue
        ordered = [next(iter(one)) for one in numbers]
        if all(number - ordered[0] == const(at) for at, number in enumerate(ordered)):
            return [(number, size) for number in ordered]
    return None
