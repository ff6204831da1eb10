"""The plain graph of a spec goes in; which conditions leave few terms of its sums, and that they do nothing else, comes
out."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import gcd

from wavespec.schema.language.expressions import Compare, Expression
from wavespec.schema.made_kernels import words_of
from wavespec.schema.ops import (
    ELEMENTWISE,
    Bitcast,
    Cast,
    Index,
    Iterate,
    Mma,
    Op,
    Read,
    Reduce,
    Register,
    ValueOp,
    ValueType,
    Write,
    every,
    walk,
)
from wavespec.schema.ops import Size as SizeOp
from wavespec.schema.ops.elementwise import Choice
from wavespec.schema.residues.index_sums import Digit, Indices, Made, Sum

_KNOWN = (Register, Index, SizeOp, Read, Mma, Iterate, Cast, Bitcast, Reduce, Write, *ELEMENTWISE)
"""Ops whose elements follow from those at the same place, but for sums."""


@dataclass(frozen=True, slots=True)
class Guard:
    """``(kept * kept_step + term * term_step + offset) % modulus == 0``, for digits of two dims: one that results have,
    and one that is summed over."""

    kept: Digit
    kept_step: int
    term: Digit
    term_step: int
    offset: int
    modulus: int

    @property
    def residues(self) -> int:
        """Residues of ``kept`` that are met by different terms."""
        return self.modulus // gcd(self.kept_step, self.modulus)

    def first_term(self, residue: Sum) -> Sum:
        """The first of the terms, each ``modulus`` behind the other, that a residue of ``kept`` meets."""
        inverse = -pow(self.term_step, -1, self.modulus)
        found = residue.times(inverse * self.kept_step % self.modulus)
        found += Sum(constant=inverse * self.offset % self.modulus)
        return found - found.over(self.modulus).times(self.modulus)


def guard_of(condition: Expression, indices: Indices, summed: Collection[str]) -> Guard | None:
    """The guard that a condition is: one of a remainder, or that a division leaves none."""
    if not isinstance(condition, Compare) or condition.op != "==":
        return None
    left, right = indices.formula(condition.left), indices.formula(condition.right)
    if left is None or right is None:
        return None
    apart = left - right
    for atom, number in apart.terms:
        if not isinstance(atom, Made) or atom.function != "//" or (modulus := atom.arguments[1].number) is None:
            continue
        if abs(number) == modulus:
            sign = -1 if number > 0 else 1
            (of, _), own = atom.arguments, Sum(((atom, modulus),))
            rest = apart - (of - own).times(sign)
            if rest.number is not None and 0 <= -sign * rest.constant < modulus:
                return _guard(of + rest.times(sign), modulus, summed)
    return None


def _guard(of: Sum, modulus: int, summed: Collection[str]) -> Guard | None:
    terms = {atom: number for atom, number in of.terms if number % modulus}
    digits = [atom for atom in terms if isinstance(atom, Digit)]
    if len(digits) != len(terms) or len(terms) != 2:
        return None
    kept, term = sorted(digits, key=lambda digit: digit.dim in summed)
    if kept.dim in summed or term.dim not in summed or gcd(terms[term], modulus) > 1:
        return None
    steps = [terms[one] % modulus for one in (kept, term)]
    return Guard(kept, steps[0], term, steps[1], of.constant % modulus, modulus)


def summed_dims(ops: Sequence[Op], types: Mapping[str, ValueType]) -> set[str]:
    """Dims that results have no more."""
    return {dim for op in walk(ops) if isinstance(op, ValueOp) for dim in _gone(op, types)}


def is_known(ops: Sequence[Op]) -> bool:
    """Whether all of a graph is such that results follow from what has their own indices, but for sums."""
    loops = every(Iterate, ops)
    return all(isinstance(op, _KNOWN) for op in walk(ops)) and all(
        one is None for loop in loops for one in (loop.start, loop.end, loop.step, loop.until)
    )


def _gone(op: ValueOp, types: Mapping[str, ValueType]) -> set[str]:
    if isinstance(op, Iterate | Read) or op.name not in types:
        return set()
    return {dim for name in words_of(op) if name in types for dim in types[name].dims} - {*types[op.name].dims}


@dataclass(frozen=True, slots=True)
class Terms:
    """Whether what is summed along a dim is 0 wherever some values are.

    ``zeros``: the values that a guard makes 0, to begin with.
    """

    ops: Sequence[Op]
    types: Mapping[str, ValueType]
    dim: str
    zeros: set[str]

    def may_be_left_out(self) -> bool:
        sums = set[str]()
        for op in walk(self.ops):
            if isinstance(op, Write) and self.dim in self.types[op.value].dims:
                return False
            if not isinstance(op, ValueOp):
                continue
            if self.dim in _gone(op, self.types):
                if not self._is_sum(op):
                    return False
                sums |= {op.name} if isinstance(op, Reduce) and op.init is None else set()
            elif isinstance(op, Cast) and op.value in sums:
                sums.add(op.name)
            elif self._is_zero(op):
                self.zeros.add(op.name)
        loops = [loop for loop in every(Iterate, self.ops) if loop.dim == self.dim]
        return all(self._sweep(loop.body, {one: one for one in loop.carry}, sums) for loop in loops)

    def _is_zero(self, op: ValueOp) -> bool:
        if isinstance(op, Cast):
            return op.value in self.zeros
        if isinstance(op, Reduce):
            return op.word == "sum" and op.init is None and self.zeros.issuperset(op.values)
        if isinstance(op, Choice):
            return all(one == 0 or one in self.zeros for one in (op.then, op.otherwise))
        if not isinstance(op, ELEMENTWISE):
            return False
        operands = [getattr(op, field) for field in op.headline]
        if op.word == "mul":
            return any(one in self.zeros for one in operands)
        return op.word in ("add", "sub", "neg") and all(one in self.zeros for one in operands)

    def _is_sum(self, op: ValueOp) -> bool:
        if isinstance(op, Mma):
            return not self.zeros.isdisjoint((op.lhs, op.rhs))
        return isinstance(op, Reduce) and op.word == "sum" and self.zeros.issuperset(op.values)

    def _sweep(self, body: Sequence[Op], carried: dict[str, str], sums: Collection[str]) -> bool:
        """Whether a step does nothing but add sums to what it carries; ``carried``: by each name, what it was."""
        before = dict(carried)
        for op in body:
            if not isinstance(op, ValueOp):
                return False
            if isinstance(op, Iterate):
                inner = {name: carried[of] for name, of in op.carry.items() if of in carried}
                is_sum = inner.keys() == op.carry.keys() and self._sweep(op.body, inner, sums)
                carried |= {f"{op.name}.{name}": of for name, of in inner.items() if is_sum}
                continue
            of = self._added_to(op, carried, sums)
            if of is None:
                carried.pop(op.name, None)
            else:
                carried[op.name] = carried[of]
        return all(carried.get(name) == of for name, of in before.items())

    def _added_to(self, op: ValueOp, carried: Mapping[str, str], sums: Collection[str]) -> str | None:
        """What an op adds sums to, of what is carried."""
        if isinstance(op, Mma):
            return op.acc if op.acc in carried and self.dim in _gone(op, self.types) else None
        if isinstance(op, Reduce):
            return op.init if op.init in carried and self.dim in _gone(op, self.types) else None
        if isinstance(op, Cast):
            same = op.value in carried and self.types[op.value].dtype == op.dtype
            return op.value if same else None
        if isinstance(op, ELEMENTWISE) and op.word == "add":
            operands = [getattr(op, field) for field in op.headline]
            first, *others = sorted(operands, key=lambda one: one not in carried)
            return first if first in carried and all(one in sums for one in others) else None
        return None
