"""Expressions of indices go in; sums of digits of these, in one form for all ways to write them, come out, and back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from wavespec.schema.language.expressions import Binary, Call, Expression, Name, Num, Unary
from wavespec.schema.language.models import KernelSpec
from wavespec.schema.resolve import resolve_params

Reader = Callable[[Expression], "Sum | None"]
Factors = tuple[str, ...]
"""Of a size, sorted: primes, and names of dims."""
_MOST_TO_FACTOR = 1 << 20
FUNCTIONS = {"min": "minimum", "max": "maximum", "xor": "bitwise_xor"}
"""Of places, and what formulas call them."""
_OF_FORMULAS = {name: function for function, name in FUNCTIONS.items()}


@dataclass(frozen=True, slots=True)
class Digit:
    """``index // low % (high // low)`` of the index along a dim: all of it where ``high`` is the size of the dim."""

    dim: str
    low: Factors
    high: Factors


@dataclass(frozen=True, slots=True)
class Size:
    """The size of a dim."""

    dim: str


@dataclass(frozen=True, slots=True)
class Made:
    """What is no sum: a function, or an operator that has none of the other forms, of sums."""

    function: str
    arguments: tuple[Sum, ...]


Atom = Digit | Size | Made


@dataclass(frozen=True, slots=True)
class Sum:
    """``constant`` and atoms, each times a factor that is not 0, in one order for all ways to add them up."""

    terms: tuple[tuple[Atom, int], ...] = ()
    constant: int = 0

    @staticmethod
    def of(terms: Iterable[tuple[Atom, int]], constant: int = 0) -> Sum:
        found: dict[Atom, int] = {}
        for atom, factor in terms:
            found[atom] = found.get(atom, 0) + factor
        return Sum(tuple(sorted(((a, n) for a, n in found.items() if n), key=_rank)), constant)

    def __add__(self, other: Sum) -> Sum:
        return Sum.of((*self.terms, *other.terms), self.constant + other.constant)

    def __sub__(self, other: Sum) -> Sum:
        return self + other.times(-1)

    def times(self, factor: int) -> Sum:
        return Sum.of(((atom, number * factor) for atom, number in self.terms), self.constant * factor)

    @property
    def number(self) -> int | None:
        """What it is, if that is known."""
        return None if self.terms else self.constant

    @property
    def atom(self) -> Atom | None:
        """What it is, if that is one."""
        return self.terms[0][0] if len(self.terms) == 1 and self.terms[0][1] == 1 and not self.constant else None

    def atoms(self) -> Iterator[Atom]:
        """All of them, those inside of others, too."""
        for atom, _ in self.terms:
            yield atom
            for part in atom.arguments if isinstance(atom, Made) else ():
                yield from part.atoms()

    def over(self, divisor: int) -> Sum:
        """``self // divisor``, with what it is a multiple of outside of the division."""
        whole = [(atom, number // divisor) for atom, number in self.terms if number % divisor == 0]
        rest = Sum.of((one for one in self.terms if one[1] % divisor), self.constant % divisor)
        outside = Sum.of(whole, self.constant // divisor)
        return outside + _floor(rest, divisor) if rest.terms else outside


def _rank(term: tuple[Atom, int]) -> tuple[int, str]:
    return ("Digit", "Size", "Made").index(type(term[0]).__name__), repr(term[0])


def _floor(rest: Sum, divisor: int) -> Sum:
    digit, factors = rest.atom, primes(divisor)
    if isinstance(digit, Digit) and includes(between(digit.low, digit.high), factors):
        return digit_sum(digit.dim, joined(digit.low, factors), digit.high)
    return Sum(((Made("//", (rest, Sum(constant=divisor))), 1),))


def digit_sum(dim: str, low: Factors, high: Factors) -> Sum:
    """0 where it can be nothing else."""
    return Sum() if low == high else Sum(((Digit(dim, low, high), 1),))


def primes(number: int) -> Factors:
    """A large number counts as one itself."""
    if number > _MOST_TO_FACTOR:
        return (str(number),)
    found, factor = list[str](), 2
    while number > 1:
        while number % factor == 0:
            found.append(str(factor))
            number //= factor
        factor += 1 if factor * factor <= number else max(1, number - factor)
    return tuple(sorted(found))


def joined(*factors: Factors) -> Factors:
    return tuple(sorted(one for some in factors for one in some))


def includes(factors: Factors, others: Factors) -> bool:
    return Counter(others) <= Counter(factors)


def between(low: Factors, high: Factors) -> Factors:
    """The factors of ``high`` without those of ``low``."""
    return tuple(sorted((Counter(high) - Counter(low)).elements()))


class Indices:
    """The dims and parameters of a spec, and what values are that follow from indices alone."""

    def __init__(self, spec: KernelSpec) -> None:
        self.dims, self.params = spec.dims, resolve_params(spec)
        self.values: dict[str, Sum] = {}
        self._factors: dict[str, Factors] = {}

    def factors(self, dim: str) -> Factors:
        """Of the size of a dim."""
        if dim not in self._factors:
            about = self.dims[dim]
            self._factors[dim] = (dim,)  # where it follows from itself, which is a mistake
            found = None if about.equals is None else self._factors_of(self._size(about.equals))
            self._factors[dim] = primes(about.value) if about.value else (dim,) if found is None else found
        return self._factors[dim]

    def index(self, dim: str) -> Sum:
        return digit_sum(dim, (), self.factors(dim))

    def size(self, dim: str) -> Sum:
        about = self.dims[dim]
        return Sum(constant=about.value) if about.value else Sum(((Size(dim), 1),))

    def place(self, tree: Expression) -> Sum | None:
        """Of an expression as places have them, in which the name of a dim is the index along it."""
        if isinstance(tree, Name) and tree.name in self.dims:
            return self.index(tree.name)
        return self._read(tree, self.place)

    def formula(self, tree: Expression) -> Sum | None:
        """Of an expression as formulas have them, whose type makes no difference."""
        match tree:
            case Name(name=name) if name in self.dims:
                return self.size(name)
            case Call(function="index", arguments=(dim,)):
                return self.index(str(dim))
            case Call(function="i32" | "i64", arguments=(argument,)):
                return self.formula(argument)
            case _:
                return self._read(tree, self.formula)

    def _size(self, tree: Expression) -> Sum | None:
        if isinstance(tree, Name) and tree.name in self.dims:
            return self.size(tree.name)
        return self._read(tree, self._size)

    def _read(self, tree: Expression, read: Reader) -> Sum | None:
        match tree:
            case Num(value=int(value)) if not isinstance(value, bool):
                return Sum(constant=value)
            case Name(name=name):
                number = self.params.get(name)
                return self.values.get(name) if number is None else Sum(constant=number)
            case Call(function="size", arguments=(dim,)):
                return self.size(str(dim))
            case Unary(op="-", operand=operand):
                found = read(operand)
                return None if found is None else found.times(-1)
            case Binary(op="+" | "-" | "*" | "//" | "%" as sign, left=left, right=right):
                first, second = read(left), read(right)
                return None if first is None or second is None else self._binary(sign, first, second)
            case Call(function=function, arguments=arguments):
                name = _OF_FORMULAS.get(function, function)
                parts = [read(one) for one in arguments]
                known = tuple(one for one in parts if one is not None)
                is_known = name in FUNCTIONS and len(known) == len(parts)
                return Sum(((Made(name, known), 1),)) if is_known else None
            case _:
                return None

    def _binary(self, sign: str, left: Sum, right: Sum) -> Sum | None:
        number = right.number
        if sign == "+":
            return left + right
        if sign == "-":
            return left - right
        if sign == "*":
            if number is not None or left.number is not None:
                return left.times(number) if number is not None else right.times(left.constant)
            return Sum(((Made("*", (left, right)), 1),))
        if number is not None and number < 1:
            return None
        if sign == "//":
            return self._divided(left, right)
        return self._remainder(left, right)

    def _divided(self, left: Sum, right: Sum) -> Sum:
        factors, digit = self._factors_of(right), left.atom
        if right.number is not None:
            return left.over(right.constant)
        if factors is not None and isinstance(digit, Digit) and includes(between(digit.low, digit.high), factors):
            return digit_sum(digit.dim, joined(digit.low, factors), digit.high)
        return Sum(((Made("//", (left, right)), 1),))

    def _remainder(self, left: Sum, right: Sum) -> Sum:
        factors, digit = self._factors_of(right), left.atom
        if factors is not None and isinstance(digit, Digit) and includes(between(digit.low, digit.high), factors):
            return digit_sum(digit.dim, digit.low, joined(digit.low, factors))
        if right.number is not None:
            return left - left.over(right.constant).times(right.constant)
        return Sum(((Made("%", (left, right)), 1),))

    def _factors_of(self, size: Sum | None) -> Factors | None:
        if size is None or (size.number is not None and size.number < 1):
            return None
        if size.number is not None:
            return primes(size.number)
        if len(size.terms) != 1 or size.constant or size.terms[0][1] < 1:
            return None
        (atom, number), *_ = size.terms
        if isinstance(atom, Size):
            return joined(primes(number), self.factors(atom.dim))
        if isinstance(atom, Made) and atom.function == "*":
            parts = [self._factors_of(one) for one in atom.arguments]
            known = [one for one in parts if one is not None]
            return joined(primes(number), *known) if len(known) == len(parts) else None
        return None
