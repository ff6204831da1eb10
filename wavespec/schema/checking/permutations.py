"""An expression of `index` and `count` goes in; whether it is a permutation of the indices for every count comes out.

Where divisors are constants, such an expression is linear in `index` and `count` as long as their remainders by some
period P stay the same: with index = P·i + r and count = P·c + s each r gives the numbers a·i + b·c + d, one for each i.
What these cover between 0 and count then repeats when c grows by L, the least common multiple of all a, as soon as
their ends, which move with c, are far enough apart: from c = 2D + 2L + 1 on, D being the largest of |a| + |d| and P.
So the counts up to P·(2D + 3L + 2) decide for all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import lcm

from wavespec.schema.language.expressions import Binary, Call, Expression, Name, Num, Unary

INDEX, COUNT = "index", "count"
_MOST_COUNTS = 1024
_MOST_VALUES = 2**16
_TOO_MANY = "its numbers leave too many cases to try"


class Undecided(Exception):
    """Nothing is known of the expression; the message, the end of a sentence, says why, and `node` of which part."""

    def __init__(self, why: str, node: Expression) -> None:
        super().__init__(why)
        self.node = node


@dataclass(frozen=True, slots=True)
class Clash:
    """For `count` indices the expression has these values, none of which is `missed`."""

    count: int
    missed: int
    values: tuple[int, ...]


def clash_of(expression: Expression, constants: Mapping[str, int], counts: range | None) -> Clash | None:
    """The first count for which `expression` is no permutation of the indices from 0 on; `None` where it always is one.

    Args:
        constants: the values of all other names in it.
        counts: those that there may be; `None` for any.

    Raises:
        Undecided: the counts are too many to try them all, and the expression is not of the form above.
        EvaluationError: it has no value for an index.
    """
    if counts is not None and _sum(counts) <= _MOST_VALUES:
        tables = (
            (count, [expression.evaluate({**constants, INDEX: index, COUNT: count}) for index in range(count)])
            for count in counts
        )
    else:
        period = _period(expression, constants)
        if period * period > _MOST_COUNTS:
            raise Undecided(_TOO_MANY, expression)
        lines = _Lines(constants, period)
        of = {(r, s): lines.of(expression, r, s) for s in range(period) for r in range(period)}
        ends = max(period, *(abs(line.each) + abs(line.rest) for line in of.values()))
        repeats = lcm(*(abs(line.each) or 1 for line in of.values()))
        limit = period * (2 * ends + 3 * repeats + 2)
        if limit > _MOST_COUNTS:
            raise Undecided(_TOO_MANY, expression)
        tables = (
            (count, [of[i % period, count % period].at(i // period, count // period) for i in range(count)])
            for count in range(limit + 1)
        )
    return next((clash for count, values in tables if (clash := _clash(count, values))), None)


def _sum(counts: range) -> int:
    """Of its first and its last number, as those in between are evenly far apart: there may be billions."""
    return (counts[0] + counts[-1]) * len(counts) // 2 if counts else 0


def _clash(count: int, values: Sequence[int]) -> Clash | None:
    missed = set(range(count)).difference(values)
    return Clash(count, min(missed), tuple(values)) if missed else None


@dataclass(frozen=True, slots=True)
class _Line:
    """``each · i + by_count · c + rest``."""

    each: int
    by_count: int
    rest: int

    @property
    def is_constant(self) -> bool:
        return not self.each and not self.by_count

    def at(self, i: int, c: int) -> int:
        return self.each * i + self.by_count * c + self.rest

    def plus(self, other: _Line, times: int = 1) -> _Line:
        return _Line(
            self.each + times * other.each, self.by_count + times * other.by_count, self.rest + times * other.rest
        )

    def times(self, factor: int) -> _Line:
        return _Line(self.each * factor, self.by_count * factor, self.rest * factor)


@dataclass(frozen=True, slots=True)
class _Lines:
    """Expressions where the remainders of index and count by `period` are given."""

    constants: Mapping[str, int]
    period: int

    def of(self, node: Expression, index: int, count: int) -> _Line:
        """The line that `node` is where the remainders are `index` and `count`."""
        parts = [self.of(child, index, count) for child in node.children]
        match node:
            case Name(name=name) if name == INDEX:
                return _Line(self.period, 0, index)
            case Name(name=name) if name == COUNT:
                return _Line(0, self.period, count)
            case Name(name=name):
                return _Line(0, 0, self.constants[name])
            case Num(value=int(value)):
                return _Line(0, 0, value)
            case Unary():
                return parts[0].times(-1)
            case Binary(op="+" | "-" as sign):
                return parts[0].plus(parts[1], 1 if sign == "+" else -1)
            case Binary(op="*"):
                left, right = parts if parts[1].is_constant else parts[::-1]
                if not right.is_constant:
                    raise Undecided("it multiplies 'index' and 'count'", node)
                return left.times(right.rest)
            case Binary(op="//" | "%" as sign):
                return _quotient(sign, parts[0], parts[1].rest)
            case Call(function="ceildiv"):
                return _quotient("//", parts[0].times(-1), parts[1].rest).times(-1)
            case Call(function="min" | "max" as function):
                if len({(part.each, part.by_count) for part in parts}) > 1:
                    raise Undecided(f"which one is the '{function}' depends on how large 'index' and 'count' are", node)
                return _Line(
                    parts[0].each, parts[0].by_count, {"min": min, "max": max}[function](p.rest for p in parts)
                )
            case _:
                raise Undecided(f"'{node}' is not made of + - * // % ceildiv, min and max of numbers", node)


def _quotient(sign: str, line: _Line, divisor: int) -> _Line:
    """What `line` is divided by a number that both of its factors are multiples of, as those of a period are."""
    if sign == "%":
        return _Line(0, 0, line.rest % divisor)
    return _Line(line.each // divisor, line.by_count // divisor, line.rest // divisor)


def _period(node: Expression, constants: Mapping[str, int]) -> int:
    """A number after which all quotients in an expression repeat: divisors one inside the other multiply."""
    match node:
        case Binary(op="//" | "%", left=left, right=right) | Call(function="ceildiv", arguments=(left, right)):
            if {INDEX, COUNT} & {*right.names()}:
                raise Undecided("it divides by what depends on 'index' or 'count'", right)
            divisor = right.evaluate(constants)
            if divisor < 1:
                raise Undecided("it divides by a number below 1", right)
            return divisor * _period(left, constants)
        case _:
            return lcm(1, *(_period(child, constants) for child in node.children))
