"""Integer index expressions: hash-consed, simplified at construction, with known ranges and divisibility.

Every node knows ``low <= value <= high`` (``None`` = unknown) and a ``divisor`` that divides it, so masks, divisions
and remainders that cannot matter disappear as soon as an expression is built.  Division and remainder round towards
minus infinity.  The normal form of a sum is ``constant + Σ coefficient · term`` with terms in a stable order, hence
two equal sums are the same object and ``is`` / ``==`` decide equality.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import lru_cache, reduce
from typing import Any, Literal
from weakref import WeakValueDictionary

from wavespec.ir.expr_divisor import divisor_of_sum
from wavespec.ir.expr_printer import expr_to_text, sort_key
from wavespec.ir.expr_value import evaluated
from wavespec.ir.expr_xor import parts, possible_bits, power_of_two

Kind = Literal["const", "symbol", "sum", "product", "floordiv", "mod", "min", "max", "xor"]

_interned: WeakValueDictionary[tuple[Any, ...], Expr] = WeakValueDictionary()


class Expr:
    """One interned node; build it with :func:`const`, :func:`symbol` and the operators."""

    __slots__ = ("__weakref__", "args", "divisor", "high", "kind", "known_order", "low", "symbols")

    kind: Kind
    args: tuple[Any, ...]
    low: int | None
    high: int | None
    divisor: int
    symbols: frozenset[str]
    known_order: str | None

    def __add__(self, other: Expr | int) -> Expr:
        return _sum((self, 1), (other, 1)) if isinstance(other, Expr) else _moved(self, other)

    def __radd__(self, other: int) -> Expr:
        return self + other

    def __sub__(self, other: Expr | int) -> Expr:
        return _sum((self, 1), (other, -1)) if isinstance(other, Expr) else _moved(self, -other)

    def __rsub__(self, other: int) -> Expr:
        return as_expr(other) - self

    def __neg__(self) -> Expr:
        return _sum((self, -1))

    def __mul__(self, other: Expr | int) -> Expr:
        return _product(self, as_expr(other))

    def __rmul__(self, other: int) -> Expr:
        return self * other

    def __floordiv__(self, other: Expr | int) -> Expr:
        return _floordiv(self, as_expr(other))

    def __mod__(self, other: Expr | int) -> Expr:
        return _mod(self, as_expr(other))

    def __xor__(self, other: Expr | int) -> Expr:
        return _xor(self, as_expr(other))

    def __repr__(self) -> str:
        return expr_to_text(self)

    def __reduce__(self) -> tuple[Callable[..., Expr], tuple[Any, ...]]:
        return rebuilt, (self.kind, self.args)

    @property
    def order(self) -> str:
        """Sorts terms and factors; most sums are neither."""
        if self.known_order is None:
            self.known_order = sort_key(self)
        return self.known_order

    @property
    def value(self) -> int:
        """The integer of a constant; raises ``ValueError`` for anything else."""
        if self.kind != "const":
            raise ValueError(f"{self} is not a constant")
        return self.args[0]

    @property
    def is_const(self) -> bool:
        return self.kind == "const"

    def constant_part(self) -> int:
        """The additive constant of the normal form."""
        return _linear(self)[0]

    def terms(self) -> tuple[tuple[int, Expr], ...]:
        """``(coefficient, term)`` pairs of the normal form, without the constant."""
        return _linear(self)[1]

    def beyond(self, other: Expr) -> int | None:
        """How much larger than the other it is; None where that is not a constant."""
        (mine, terms), (others, same) = _linear(self), _linear(other)
        return mine - others if terms == same else None

    def evaluate(self, environment: Mapping[str, Any], inner: Callable[[Expr], Any] | None = None) -> Any:
        """The value with every symbol replaced; integers or numpy integer arrays.  ``inner``: what gives the values of
        the expressions inside, where some are known already."""
        return evaluated(self, environment, inner)

    def substitute(self, replacement: Mapping[str, Expr | int]) -> Expr:
        """The same expression with symbols replaced by expressions."""
        if self.symbols.isdisjoint(replacement):
            return self
        match self.kind:
            case "symbol":
                return as_expr(replacement[self.args[0]])
            case "sum":
                parts = [(term.substitute(replacement), coefficient) for coefficient, term in self.args[1]]
                return _sum((const(self.args[0]), 1), *parts)
            case _:
                return reduce(_BUILD[self.kind], [argument.substitute(replacement) for argument in self.args])

    def walk(self) -> Iterator[Expr]:
        """This node and everything below it, parents first."""
        yield self
        children = [term for _, term in self.args[1]] if self.kind == "sum" else self.args
        for child in children:
            if isinstance(child, Expr):
                yield from child.walk()


@lru_cache(maxsize=4096)
def const(value: int) -> Expr:
    """The integer ``value``."""
    return _intern("const", (value,), value, value, abs(value), frozenset())


def symbol(name: str, low: int | None = 0, high: int | None = None, divisor: int = 1) -> Expr:
    """A named integer with ``low <= name <= high`` (inclusive) and ``divisor`` dividing it."""
    return _intern("symbol", (name, low, high, divisor), low, high, divisor, frozenset((name,)))


def as_expr(value: Expr | int) -> Expr:
    """``value`` itself, or the constant."""
    return value if isinstance(value, Expr) else const(value)


def minimum(left: Expr | int, right: Expr | int) -> Expr:
    """The smaller of two expressions."""
    return _extreme("min", as_expr(left), as_expr(right))


def maximum(left: Expr | int, right: Expr | int) -> Expr:
    """The larger of two expressions."""
    return _extreme("max", as_expr(left), as_expr(right))


def ceildiv(left: Expr | int, right: Expr | int) -> Expr:
    """``left / right`` rounded up; ``right`` is positive."""
    a = as_expr(left)
    if isinstance(right, Expr):
        return (a + (right - 1)) // right
    return (a + (right - 1)) // right if a.divisor % right else a // right


def total(parts: Iterable[tuple[Expr, int]]) -> Expr:
    """The sum of expressions, each so many times: at once, without the sums on the way."""
    return _sum(*parts)


def at_most(left: Expr, right: Expr) -> bool:
    """True when ``left <= right`` follows from the known ranges."""
    difference = right - left
    return difference.low is not None and difference.low >= 0


def less(left: Expr, right: Expr) -> bool:
    """True when ``left < right`` follows from the known ranges."""
    difference = right - left
    return difference.low is not None and difference.low >= 1


# ----------------------------------------------------------------------------------------------------------- building


def _intern(
    kind: Kind, args: tuple[Any, ...], low: int | None, high: int | None, divisor: int, symbols: frozenset[str]
) -> Expr:
    key = (kind, args)
    found = _interned.get(key)
    if found is not None:
        return found
    if low is not None and low == high and kind != "const":
        return const(low)
    node = Expr.__new__(Expr)
    node.kind, node.args, node.low, node.high, node.divisor, node.symbols = kind, args, low, high, divisor, symbols
    node.known_order = None
    _interned[key] = node
    return node


def _extreme(kind: Literal["min", "max"], left: Expr, right: Expr) -> Expr:
    for a, b in ((left, right), (right, left)):
        if at_most(a, b):
            return a if kind == "min" else b
    a, b = sorted((left, right), key=_order)
    lows, highs = ([x for x in ends if x is not None] for ends in ((a.low, b.low), (a.high, b.high)))
    # On one side, one that is known will do.
    if kind == "min":
        low, high = min(lows) if len(lows) == 2 else None, min(highs, default=None)
    else:
        low, high = max(lows, default=None), max(highs) if len(highs) == 2 else None
    return _intern(kind, (a, b), low, high, math.gcd(a.divisor, b.divisor), a.symbols | b.symbols)


def _order(node: Expr) -> str:
    return node.order


def _pair_order(pair: tuple[int, Expr]) -> str:
    node = pair[1]
    return node.known_order or node.order


def _linear(node: Expr) -> tuple[int, tuple[tuple[int, Expr], ...]]:
    if node.kind == "const":
        return node.args[0], ()
    if node.kind == "sum":
        return node.args
    return 0, ((1, node),)


# The same offsets are added up for every access of a tile; what is kept is bounded, as it keeps its terms alive.
@lru_cache(maxsize=1 << 15)
def _sum(*parts: tuple[Expr, int]) -> Expr:
    constant, linear = 0, list[tuple[int, tuple[tuple[int, Expr], ...]]]()
    for node, scale in parts:
        part_constant, terms = _linear(node)
        constant += scale * part_constant
        if terms and scale:
            linear.append((scale, terms))
    if not linear:
        return const(constant)
    if len(linear) == 1:  # already in order
        scale, terms = linear[0]
        pairs = terms if scale == 1 else tuple([(scale * coefficient, term) for coefficient, term in terms])
    else:
        coefficients = dict[Expr, int]()
        for scale, terms in linear:
            for coefficient, term in terms:
                coefficients[term] = coefficients.get(term, 0) + scale * coefficient
        pairs = tuple(
            sorted([(coefficient, term) for term, coefficient in coefficients.items() if coefficient], key=_pair_order)
        )
        if not pairs:
            return const(constant)
    if (known := _known_sum(constant, pairs)) is not None:
        return known
    low: int | None = constant
    high: int | None = constant
    for coefficient, term in pairs:
        lower, upper = (term.low, term.high) if coefficient > 0 else (term.high, term.low)
        low = None if low is None or lower is None else low + coefficient * lower
        high = None if high is None or upper is None else high + coefficient * upper
    symbols = pairs[0][1].symbols if len(pairs) == 1 else frozenset[str]().union(*[term.symbols for _, term in pairs])
    return _intern("sum", (constant, pairs), low, high, divisor_of_sum(constant, pairs), symbols)


@lru_cache(maxsize=1 << 15)
def _moved(node: Expr, by: int) -> Expr:
    """``node + by``, as most sums are: of the same terms, and its range is moved."""
    constant, pairs = _linear(node)
    constant += by
    if not pairs:
        return const(constant)
    if (known := _known_sum(constant, pairs)) is not None:
        return known
    low, high = None if node.low is None else node.low + by, None if node.high is None else node.high + by
    return _intern("sum", (constant, pairs), low, high, divisor_of_sum(constant, pairs), node.symbols)


def _known_sum(constant: int, pairs: tuple[tuple[int, Expr], ...]) -> Expr | None:
    if constant == 0 and len(pairs) == 1 and pairs[0][0] == 1:
        return pairs[0][1]
    return _interned.get(("sum", (constant, pairs)))


@lru_cache(maxsize=1 << 14)
def _product(left: Expr, right: Expr) -> Expr:
    for a, b in ((left, right), (right, left)):
        if a.is_const:
            return _sum((b, a.value))
    for a, b in ((left, right), (right, left)):
        constant = a.constant_part()
        if a.kind == "sum" and constant:
            return _sum((_product(_sum((a, 1), (const(constant), -1)), b), 1), (b, constant))
    scale, factors = 1, list[Expr]()
    for node in (left, right):
        constant, terms = _linear(node)
        if len(terms) == 1 and constant == 0:
            scale *= terms[0][0]
            node = terms[0][1]
        elif node.kind == "sum":
            common = math.gcd(*(coefficient for coefficient, _ in terms))
            scale *= common
            node = _sum(*((term, coefficient // common) for coefficient, term in terms))
        factors.extend(node.args if node.kind == "product" else (node,))
    factors.sort(key=_order)
    low: int | None = None
    high: int | None = None
    if all(f.low is not None and f.low >= 0 for f in factors):
        low = math.prod(f.low or 0 for f in factors)
        high = math.prod(f.high or 0 for f in factors) if all(f.high is not None for f in factors) else None
    symbols = frozenset[str]().union(*(f.symbols for f in factors))
    node = _intern("product", tuple(factors), low, high, math.prod(f.divisor for f in factors), symbols)
    return _sum((node, scale))


def _split(node: Expr, divisor: int) -> tuple[Expr, Expr]:
    """``node = divisor · quotient + rest`` where the quotient collects every term known to be divisible."""
    constant, terms = _linear(node)
    quotient: list[tuple[Expr, int]] = [(const(constant // divisor), 1)]
    rest: list[tuple[Expr, int]] = [(const(constant % divisor), 1)]
    for coefficient, term in terms:
        if coefficient % divisor == 0:
            quotient.append((term, coefficient // divisor))
        else:
            rest.append((term, coefficient))
    return _sum(*quotient), _sum(*rest)


@lru_cache(maxsize=1 << 14)
def _floordiv(left: Expr, right: Expr) -> Expr:
    if not right.is_const:
        if left is right:
            return const(1)
        left = left - loose_part(left, right)
        positive = right.low is not None and right.low >= 1
        if positive and left.low is not None and left.low >= 0 and less(left, right):
            return const(0)
        return _intern(
            "floordiv",
            (left, right),
            min(left.low, 0) if positive and left.low is not None else None,
            max(left.high, -1) if positive and left.high is not None else None,
            1,
            left.symbols | right.symbols,
        )
    divisor = right.value
    if divisor <= 0:
        raise ValueError(f"division of {left} by {divisor}: only positive divisors are used for indices")
    if divisor == 1:
        return left
    quotient, rest = _split(left, divisor)
    excess = loose_part(rest, right)
    if excess.terms() or rest.is_const:
        return quotient if excess is rest else quotient + _floordiv(rest - excess, right)
    common = math.gcd(divisor, *(coefficient for coefficient, _ in rest.terms()))
    if common > 1:  # floor((c·x + r) / (c·d)) = floor((x + floor(r / c)) / d) for integers x
        reduced = _sum((const(rest.constant_part() // common), 1), *((t, c // common) for c, t in rest.terms()))
        return quotient + _floordiv(reduced, const(divisor // common))
    if rest.kind == "floordiv" and rest.args[1].is_const:
        return quotient + _floordiv(rest.args[0], const(rest.args[1].value * divisor))
    if rest.kind == "mod" and rest.args[1].is_const and rest.args[1].value % divisor == 0:
        return quotient + _mod(_floordiv(rest.args[0], const(divisor)), const(rest.args[1].value // divisor))
    low = None if rest.low is None else rest.low // divisor
    high = None if rest.high is None else rest.high // divisor
    exact = rest.divisor // divisor if rest.divisor % divisor == 0 and rest.divisor else 1
    return quotient + _intern("floordiv", (rest, right), low, high, exact, rest.symbols)


def loose_part(left: Expr, right: Expr) -> Expr:
    """What never carries into the quotient: less than what the rest of ``left``, and ``right``, are multiples of."""
    (constant, terms), step = _linear(left), right.divisor
    while True:
        loose = _sum((const(constant), 1), *((term, c) for c, term in terms if c * term.divisor % step))
        if loose.low is not None and loose.high is not None and loose.low // step == loose.high // step:
            return loose - loose.low // step * step
        # What is longer than a step is in the rest: of that, and of ``right``, a common divisor is known.
        longer = [c * term.divisor for c, term in terms if c * term.divisor % step and not _is_within(c * term, step)]
        if not longer:
            return const(constant % math.gcd((left - constant).divisor, step) if constant else 0)
        step = math.gcd(step, *longer)


def _is_within(value: Expr, length: int) -> bool:
    """Whether all that a number may be is less than that far apart."""
    return value.low is not None and value.high is not None and value.high - value.low < length


@lru_cache(maxsize=1 << 14)
def _mod(left: Expr, right: Expr) -> Expr:
    if not right.is_const:
        if left is right or (left is const(0) and less(left, right)):
            return const(0)
        if (excess := loose_part(left, right)) is not const(0):
            return _mod(left - excess, right) + excess
        known = math.gcd(left.divisor, right.divisor)
        high = None if right.high is None else right.high - known
        return _intern("mod", (left, right), 0, high, known, left.symbols | right.symbols)
    divisor = right.value
    if divisor <= 0:
        raise ValueError(f"remainder of {left} by {divisor}: only positive divisors are used for indices")
    constant, terms = _linear(left)
    rest = _sum((const(constant % divisor), 1), *((t, c % divisor) for c, t in terms if c * t.divisor % divisor))
    if rest.divisor % divisor == 0:
        return const(0)
    if rest.low is not None and rest.high is not None and rest.low // divisor == rest.high // divisor:
        return rest - divisor * (rest.low // divisor)
    if rest.kind == "mod" and rest.args[1].is_const and rest.args[1].value % divisor == 0:
        return _mod(rest.args[0], right)
    common = math.gcd(divisor, rest.constant_part(), *(coefficient for coefficient, _ in rest.terms()))
    if common > 1:
        reduced = _sum((const(rest.constant_part() // common), 1), *((t, c // common) for c, t in rest.terms()))
        return common * _mod(reduced, const(divisor // common))
    known = math.gcd(divisor, rest.divisor)
    return _intern("mod", (rest, right), 0, divisor - known, known, rest.symbols)


def _xor(left: Expr, right: Expr) -> Expr:
    """Terms in order, and behind them the bits of a constant that they have too; its others are added."""
    constant, terms = parts(left, right)
    if not terms:
        return const(constant)
    rest = reduce(_xor_of_two, sorted(terms, key=_order))
    inside = constant & possible_bits(rest)
    return (_xor_of_two(rest, const(inside)) if inside else rest) + (constant ^ inside)


def _xor_of_two(a: Expr, b: Expr) -> Expr:
    high: int | None = None
    if a.low is not None and b.low is not None and min(a.low, b.low) >= 0 and a.high is not None and b.high is not None:
        high = (1 << max(a.high, b.high).bit_length()) - 1
    divisor = min(power_of_two(a), power_of_two(b))
    return _intern("xor", (a, b), 0 if high is not None else None, high, divisor, a.symbols | b.symbols)


_BUILD: dict[str, Callable[[Expr, Expr], Expr]] = {
    "product": _product,
    "floordiv": _floordiv,
    "mod": _mod,
    "min": minimum,
    "max": maximum,
    "xor": _xor,
}


def rebuilt(kind: Kind, args: tuple[Any, ...]) -> Expr:
    """The expression of this kind with these arguments, in normal form."""
    if kind == "const":
        return const(*args)
    if kind == "symbol":
        return symbol(*args)
    if kind == "sum":
        return _sum((const(args[0]), 1), *((term, coefficient) for coefficient, term in args[1]))
    return reduce(_BUILD[kind], args)
