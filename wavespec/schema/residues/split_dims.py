"""A digit of the index along a dim goes in; a dim that counts every so manieth of it, and what digits are then, come
out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import pairwise
from math import prod

from wavespec.schema.language.expressions import Binary, Call, Expression, Name, Num
from wavespec.schema.language.models import Dim, KernelSpec
from wavespec.schema.made_kernels import free_name
from wavespec.schema.residues.index_sums import (
    Atom,
    Digit,
    Factors,
    Indices,
    Made,
    Size,
    Sum,
    between,
    digit_sum,
    includes,
    joined,
    primes,
)


class NotSplit(Exception):
    """Places are such that a dim stays as it is."""


def cuts_of(digits: Iterable[Digit], whole: Factors) -> tuple[Factors, ...]:
    """The sizes at which digits of a dim begin and end, each a multiple of the one before."""
    found = sorted({(), whole, *(cut for one in digits for cut in (one.low, one.high))}, key=len)
    if not all(includes(high, low) for low, high in pairwise(found)):
        raise NotSplit
    return tuple(found)


@dataclass(frozen=True, slots=True)
class SplitDim:
    """A dim one of whose digits is ``count * digit + first`` of a digit of a dim that is shorter.

    ``name``: of that dim; ``about``: its size, and that of a dim of its own for its digit, if there is one.
    """

    digit: Digit
    count: int
    first: Sum
    name: str
    about: dict[str, Dim]
    cuts: tuple[Factors, ...]
    """Of the dim as it was."""
    size: Factors
    """Of the digit of the shorter dim."""
    is_exact: bool
    """Whether the digit had a multiple of ``count`` values, so that none are beyond them now."""
    is_summed: bool
    """Whether values beyond add zeros to a sum, wherever they are."""

    @property
    def new_cuts(self) -> tuple[Factors, ...]:
        return tuple(map(self._cut, self.cuts))

    def replaced(self, of: Sum) -> Sum:
        """A sum with the digits of the shorter dim in place of those of the longer.

        Raises:
            NotSplit: it has several digits in one, and not all values of these are there.
        """
        found = Sum(constant=of.constant)
        for atom, number in of.terms:
            found += self._atom(atom).times(number)
        return found

    def _atom(self, atom: Atom) -> Sum:
        if isinstance(atom, Digit) and atom.dim == self.digit.dim:
            return self._digits(atom)
        if isinstance(atom, Made):
            parts = tuple(map(self.replaced, atom.arguments))
            if atom.function == "//" and (number := parts[1].number):
                return parts[0].over(number)
            return Sum(((Made(atom.function, parts), 1),))
        return Sum(((atom, 1),))

    def _digits(self, of: Digit) -> Sum:
        first, last = self.cuts.index(of.low), self.cuts.index(of.high)
        found, below = Sum(), Sum(constant=1)
        for low, high in zip(self.cuts[first:last], self.cuts[first + 1 : last + 1], strict=True):
            is_split = low == self.digit.low
            if is_split and not (self.is_exact or self.is_summed) and last - first > 1:
                raise NotSplit
            part = digit_sum(self.name, self._cut(low), self._cut(high))
            part = part.times(self.count) + self.first if is_split else part
            found += _times(part, below)
            below = _times(below, size_sum(between(low, high)))
        return found

    def _cut(self, cut: Factors) -> Factors:
        if not includes(cut, self.digit.high):
            return cut
        return joined(between(between(self.digit.low, self.digit.high), cut), self.size)


def split_dim(
    spec: KernelSpec, digit: Digit, digits: Iterable[Digit], count: int, first: Sum, name: str, *, is_summed: bool
) -> SplitDim:
    """A dim split by one of its digits, of all ``digits`` that places have of it.

    Raises:
        NotSplit: there is no dim of that size, or no such digit.
    """
    indices = Indices(spec)
    cuts = cuts_of(digits, indices.factors(digit.dim))
    if (digit.low, digit.high) not in pairwise(cuts):
        raise NotSplit
    if spec.dims[digit.dim].fold or not digit.dim.isidentifier():
        raise NotSplit
    radix, about = between(digit.low, digit.high), dict[str, Dim]()
    is_exact = includes(radix, primes(count))
    if is_exact:
        size = between(primes(count), radix)
    elif all(one.isdigit() for one in radix):
        size = primes(-(-prod(map(int, radix)) // count))
    else:
        own = next((dim for dim in spec.dims if dim.isidentifier() and indices.factors(dim) == radix), None)
        if own is None:
            raise NotSplit
        of = spec.dims[own]
        quotient = free_name(spec, f"{own}_quotient")
        least, most = -(-of.min // count), None if of.max is None else -(-of.max // count)
        equals = Call("ceildiv", (Name(own), Num(count)))
        about[quotient], size = Dim(equals=equals, min=least, max=most), (quotient,)
    found = SplitDim(digit, count, first, name, about, cuts, size, is_exact, is_summed)
    total = found.new_cuts[-1]
    if about and total == size and name not in spec.dims:
        return replace(found, name=size[0])
    numbers = [int(one) for one in total if one.isdigit()]
    names = [Name(one) for one in (*spec.dims, *about) for _ in range(total.count(one))]
    if not names:
        return replace(found, about={**about, name: Dim(value=prod(numbers))})
    parts = [*([Num(prod(numbers))] if numbers else []), *names]
    whole: Expression = parts[0]
    for one in parts[1:]:
        whole = Binary("*", whole, one)
    return replace(found, about={**about, name: Dim(equals=whole)})


def size_sum(factors: Factors) -> Sum:
    """A size of these factors."""
    found = Sum(constant=prod(int(one) for one in factors if one.isdigit()))
    for name in (one for one in factors if not one.isdigit()):
        found = _times(Sum(((Size(name), 1),)), found)
    return found


def _times(left: Sum, right: Sum) -> Sum:
    return left.times(right.constant) if right.number is not None else Sum(((Made("*", (left, right)), 1),))
