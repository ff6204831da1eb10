"""Sums of digits of indices go in; the expressions of a place, or of a formula, come out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

from wavespec.schema.language.expressions import Binary, Call, Expression, Name, Num
from wavespec.schema.residues.index_sums import FUNCTIONS, Atom, Digit, Factors, Indices, Size, Sum, between, includes


@dataclass(frozen=True, slots=True)
class SumWriter:
    """Digits are written by the cuts between those of their dim: `M // size(W) // size(H)`."""

    indices: Indices
    cuts: Mapping[str, Sequence[Factors]]
    of_formulas: bool
    residues: Mapping[str, int] = field(default_factory=dict[str, int])
    """Dims of residues, and how many there are: few enough to see what they make."""

    def write(self, of: Sum) -> Expression:
        of = self._with_short_residues(of)
        terms = sorted(of.terms, key=lambda term: term[1] < 0)
        found: Expression | None = Num(of.constant) if not terms or terms[0][1] < 0 else None
        for atom, number in terms:
            part = self._atom(atom)
            part = part if abs(number) == 1 else Binary("*", part, Num(abs(number)))
            found = part if found is None else Binary("-" if number < 0 else "+", found, part)
        if found is None or isinstance(found, Num) or terms[0][1] < 0 or not of.constant:
            return found or Num(0)
        return Binary("-" if of.constant < 0 else "+", found, Num(abs(of.constant)))

    def size(self, factors: Factors) -> Expression:
        """A size of these factors, by a dim of that size where there is one."""
        numbers = [int(one) for one in factors if one.isdigit()]
        names = [one for one in factors if not one.isdigit()]
        if names:
            dims = [dim for dim in (*names, *self.indices.dims) if dim.isidentifier()]
            own = [dim for dim in dims if self.indices.factors(dim) == factors]
            if own:
                return self._size(own[0])
        parts = [*([Num(prod(numbers))] if prod(numbers) != 1 or not names else []), *map(self._size, names)]
        found, *others = parts
        for other in others:
            found = Binary("*", found, other)
        return found

    def _size(self, dim: str) -> Expression:
        return Call("size", (Name(dim),))

    def _atom(self, atom: Atom) -> Expression:
        if isinstance(atom, Size):
            return self._size(atom.dim)
        if isinstance(atom, Digit):
            return self._digit(atom.dim, atom.low, atom.high)
        first, *others = map(self.write, atom.arguments)
        if atom.function in FUNCTIONS:
            function = FUNCTIONS[atom.function] if self.of_formulas else atom.function
            return Call(function, (first, *others))
        return Binary(atom.function, first, others[0])

    def _digit(self, dim: str, low: Factors, high: Factors) -> Expression:
        found: Expression = Call("index", (Name(dim),)) if self.of_formulas else Name(dim)
        below: Factors = ()
        for cut in (*self.cuts.get(dim, ()), low):
            if cut != below and includes(cut, below) and includes(low, cut):
                found = Binary("//", found, self.size(between(below, cut)))
                below = cut
        return found if high == self.indices.factors(dim) else Binary("%", found, self.size(between(low, high)))

    def _with_short_residues(self, of: Sum) -> Sum:
        """What follows from a residue alone, as a multiple of it where it is one: `1 - P` for `(P + 1) % 2`."""
        for dim, count in self.residues.items():
            own = [term for term in of.terms if {*_dims_in(term[0])} == {dim}]
            if not own:
                continue
            first, *others = [sum(number * _value(atom, at) for atom, number in own) for at in range(count)]
            step = others[0] - first if others else 0
            if all(value == first + at * step for at, value in enumerate(others, 1)):
                rest = Sum.of((term for term in of.terms if term not in own), of.constant + first)
                of = rest + self.indices.index(dim).times(step)
        return of


def _dims_in(atom: Atom) -> list[str]:
    """With an empty name for what is known at a call alone."""
    inner = [part for one in getattr(atom, "arguments", ()) for part, _ in one.terms]
    if isinstance(atom, Digit):
        return [atom.dim]
    return [""] if isinstance(atom, Size) else [dim for part in inner for dim in _dims_in(part)]


def _value(atom: Atom, index: int) -> int:
    """Of an atom of one residue."""
    if isinstance(atom, Digit):
        low, high = (prod(int(one) for one in factors) for factors in (atom.low, atom.high))
        return index // low % (high // low)
    assert not isinstance(atom, Size)
    values = [sum(number * _value(part, index) for part, number in one.terms) + one.constant for one in atom.arguments]
    match atom.function:
        case "*":
            return prod(values)
        case "//":
            return values[0] // values[1]
        case "%":
            return values[0] % values[1]
        case "xor":
            return values[0] ^ values[1]
        case _:
            return min(values) if atom.function == "min" else max(values)
