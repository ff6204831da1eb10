"""Index expressions in, integer arithmetic out: each subexpression once, in the outermost block where it can be
computed."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from functools import reduce
from operator import mul
from typing import Any, NamedTuple

from wavespec.emit.mlir_text import MlirText
from wavespec.ir.expr import Expr, at_most, const, maximum, total

_I32 = (-(2**31), 2**31 - 1)
_EXACT = ("floordiv", "mod", "min", "max", "xor")
"""Kinds that are wrong where one of their parts was cut off."""


class Integer(NamedTuple):
    """An SSA integer, its width, and the block it lives in."""

    name: str
    bits: int
    depth: int

    @property
    def type(self) -> str:
        return f"i{self.bits}"


class Indices:
    """Computes expressions in ``narrowest`` bits where their range is known to fit, in 64 bits otherwise.

    Where addresses are words of 64 bits, ``narrowest`` is 64: an address made of narrower sums has to be extended again
    in every step of a loop, because they might have overflowed.  ``present``: sizes that are not 0 here, by symbol.
    """

    def __init__(self, text: MlirText, narrowest: int = 32, present: Mapping[str, Expr] | None = None) -> None:
        self.text, self.narrowest, self.present = text, narrowest, present or {}
        self.symbols: dict[str, Integer] = {}
        self._outer: list[dict[str, Integer]] = []
        self._done: list[dict[tuple[Expr, Hashable], Integer]] = [{}]
        self._constants: dict[tuple[Expr, int], Integer] = {}
        self._depths: dict[frozenset[str], int] = {}
        self._multiplied: dict[Expr, list[Expr]] = {}
        """By expression: its parts, products of sums of different depths multiplied out."""
        self._narrow = False
        self.reciprocals = False
        """Whether numbers are divided by sizes that a loop does not change as products: a processor divides words in ten
        cycles or more, and multiplies them in three."""
        self.hide: Callable[[str], str] | None = None
        """Where set, comparisons are of how far apart both sides are with a number, and made in the block that asks: what
        makes a number of 32 bits another one to the compiler, which else compares in front of a branch, in all lanes,
        what few of them compare behind it."""

    def define(self, symbol: str, name: str, bits: int) -> None:
        """Say which SSA value a symbol is; it belongs to the innermost open block."""
        if symbol in self.symbols:  # what was computed of its old value is no more
            for done in self._done:
                for key in [key for key in done if symbol in key[0].symbols]:
                    del done[key]
        self.symbols[symbol] = Integer(name, bits, self.text.depth)
        self._forget_depths()

    def open(self) -> None:
        self._done.append({})
        self._outer.append(dict(self.symbols))

    def close(self) -> None:
        """Leave a block; what its symbols stood for outside, they stand for again."""
        self._done.pop()
        self.symbols = self._outer.pop()
        self._forget_depths()

    def _forget_depths(self) -> None:
        self._depths.clear()
        self._multiplied.clear()

    def depth_of(self, symbols: frozenset[str]) -> int:
        """The number of the outermost block where all of them are known."""
        depth = self._depths.get(symbols)
        if depth is None:
            depth = self._depths[symbols] = max([self.symbols[name].depth for name in symbols], default=0)
        return depth

    def integer(self, expr: Expr, bits: int = 0) -> str:
        """SSA name of ``expr`` as an ``i{bits}`` (0: its own width)."""
        value = self._value(expr)
        return value.name if bits in (0, value.bits) else self._widened(expr, value, bits).name

    def narrow(self, expr: Expr) -> str:
        """SSA name of ``expr`` modulo 2³² as an ``i32``, computed in 32 bits throughout; the caller knows that it
        fits."""
        self._narrow = True
        name = self._compute(expr, 32).name
        self._narrow = False
        return name

    def index(self, expr: Expr) -> str:
        """SSA name of ``expr`` as an ``index``."""
        value = self._value(expr)
        key, done = (expr, -1), self._done[value.depth]
        known = done.get(key)
        if known is None:
            name = self.text.op(f"arith.index_cast {value.name} : {value.type} to index", value.depth)
            known = done[key] = Integer(name, 64, value.depth)
        return known.name

    def know(self, expr: Expr, bits: int, make: Callable[[int], str]) -> None:
        """Have ``make`` write an expression that was not computed so far, given the depth of the outermost block where it
        can be, as an integer of so many bits."""
        own, depth = 64 if is_wide(expr) else self.narrowest, self.depth_of(expr.symbols)
        if (expr, own) not in self._done[depth]:
            value = Integer(make(depth), bits, depth)
            self._done[depth][expr, own] = self._widened(expr, value, own)

    def once(self, kind: Hashable, expr: Expr, make: Callable[[int], str]) -> str:
        """SSA name of what ``make`` writes of an expression, given the depth of the outermost block where it can be
        computed; one of each ``kind`` serves the whole block."""
        depth = self.depth_of(expr.symbols)
        key = (expr, kind)
        if key not in self._done[depth]:
            self._done[depth][key] = Integer(make(depth), 0, depth)
        return self._done[depth][key].name

    def holds(self, pairs: tuple[tuple[Expr, Expr], ...]) -> str:
        """SSA name of an ``i1``: every ``left < right``."""
        result, depth = "", 0
        for left, right in pairs:
            name, at = self._less(left, right)
            result, depth = (
                (name, at)
                if not result
                else (self.text.op(f"arith.andi {result}, {name} : i1", max(depth, at)), max(depth, at))
            )
        return result

    def addends(self, expr: Expr) -> list[Expr]:
        """Expressions whose sum is ``expr``, what can be computed in an outer block first: what an inner loop does not
        change is added up around it."""
        depths: dict[int, Expr] = {}
        for part in self.distributed(expr):
            depth = self.depth_of(part.symbols)
            depths[depth] = depths.get(depth, const(0)) + part
        return [depths[depth] for depth in sorted(depths)]

    def distributed(self, expr: Expr) -> list[Expr]:
        """Terms of a sum, products with sums of different depths multiplied out: offsets share most of them."""
        if expr.kind == "symbol":
            return [expr]
        known = self._multiplied.get(expr)
        if known is None:
            known = self._multiplied[expr] = self._multiply(expr)
        return known

    def _multiply(self, expr: Expr) -> list[Expr]:
        if expr.kind == "sum":
            parts = [part * factor for factor, term in expr.terms() for part in self.distributed(term)]
            return [*parts, const(expr.constant_part())]
        for number, factor in enumerate(expr.args if expr.kind == "product" else ()):
            inner = self.distributed(factor)
            if len({self.depth_of(part.symbols) for part in inner}) > 1:
                others = [other for place, other in enumerate(expr.args) if place != number]
                return [part for one in inner for part in self.distributed(reduce(mul, others, one))]
        return [expr]

    def inside(self, pairs: tuple[tuple[Expr, Expr], ...], *, outermost_first: bool = False) -> str:
        """What `holds` says, with ``-1 < place`` and ``place < size`` in one comparison: as an unsigned number, what is
        less than nothing is more than any size.  ``outermost_first``: what a loop does not change is joined around it."""
        places = {right for left, right in pairs if left == const(-1)}
        both = [(left, right) for left, right in pairs if left in places and right.low is not None and right.low >= 0]
        found = {place for place, _ in both}
        rest = [pair for pair in pairs if pair not in both and not (pair[0] == const(-1) and pair[1] in found)]
        result, depth = "", 0
        compared = [*(self._between(*pair) for pair in both), *(self._less(*pair) for pair in rest)]
        if outermost_first:
            compared.sort(key=lambda one: one[1])
        for name, at in compared:
            depth = max(depth, at)
            result = self.text.op(f"arith.andi {result}, {name} : i1", depth) if result else name
        return result

    def _between(self, place: Expr, size: Expr) -> tuple[str, int]:
        a, b = self._alike(place, size)
        depth = max(a.depth, b.depth)
        return self.text.op(f"arith.cmpi ult, {a.name}, {b.name} : i{a.bits}", depth), depth

    def _less(self, left: Expr, right: Expr) -> tuple[str, int]:
        if self.hide and _fits(right - left) and not (right - left).is_const:
            return self._apart(right - left), self.text.depth
        a, b = self._alike(left, right)
        depth = max(a.depth, b.depth)
        key, done = (left - right, -2), self._done[depth]
        known = done.get(key)
        if known is None:
            name = self.text.op(f"arith.cmpi slt, {a.name}, {b.name} : i{a.bits}", depth)
            known = done[key] = Integer(name, 1, depth)
        return known.name, depth

    def _apart(self, distance: Expr) -> str:
        """SSA name of an ``i1``: the distance is more than 0.  Those that differ by a number share all but that."""
        assert self.hide is not None
        number, done = distance.constant_part(), self._done[self.text.depth]
        if (known := done.get((distance, -2))) is not None:
            return known.name
        value = self._compute(distance - number, 32)
        if value.depth < self.text.depth:
            key = (distance - number, "hidden")
            if key not in done:
                done[key] = Integer(self.hide(value.name), 32, self.text.depth)
            value = done[key]
        name = self.text.op(f"arith.cmpi sgt, {value.name}, {self.text.constant(-number, 'i32')} : i32")
        done[distance, -2] = Integer(name, 1, self.text.depth)
        return name

    def _alike(self, left: Expr, right: Expr) -> tuple[Integer, Integer]:
        """Both in the bits of the wider one."""
        a, b = self._value(left), self._value(right)
        bits = max(a.bits, b.bits)
        return self._widened(left, a, bits), self._widened(right, b, bits)

    def _value(self, expr: Expr) -> Integer:
        return self._compute(expr, 64 if is_wide(expr) else self.narrowest)

    def _widened(self, expr: Expr, value: Integer, bits: int) -> Integer:
        if value.bits == bits:
            return value
        key, done = (expr, bits), self._done[value.depth]
        known = done.get(key)
        if known is None:
            if expr.is_const:
                return self._constant(expr, bits)
            verb = "extsi" if bits > value.bits else "trunci"
            name = self.text.op(f"arith.{verb} {value.name} : {value.type} to i{bits}", value.depth)
            known = done[key] = Integer(name, bits, value.depth)
        return known

    def _compute(self, expr: Expr, bits: int) -> Integer:
        kind = expr.kind
        if kind == "const":
            return self._constant(expr, bits)
        if kind == "symbol":
            return self._widened(expr, self.symbols[expr.args[0]], bits)
        depth = self.depth_of(expr.symbols)
        key, done = (expr, bits), self._done[depth]
        known = done.get(key)
        if known is None:
            name = self._sum(expr, bits, depth) if kind == "sum" else self._operation(expr, bits, depth)
            known = done[key] = Integer(name, bits, depth)
        return known

    def _constant(self, expr: Expr, bits: int) -> Integer:
        key = (expr, bits)
        known = self._constants.get(key)
        if known is None:
            known = self._constants[key] = Integer(self.text.constant(expr.value, f"i{bits}"), bits, 0)
        return known

    def _at(self, expr: Expr, bits: int) -> Integer:
        value = self._compute(expr, 32 if self._narrow else 64 if is_wide(expr) else self.narrowest)
        return self._widened(expr, value, bits)

    def _sum(self, expr: Expr, bits: int, depth: int) -> str:
        """Terms in order of depth, so that what does not change in a loop is added up outside of it."""
        constant, terms = expr.args
        by_depth: dict[int, list[tuple[int, Expr]]] = {}
        for coefficient, term in terms:
            by_depth.setdefault(self.depth_of(term.symbols), []).append((coefficient, term))
        result, at = "", 0
        for level in sorted(by_depth):
            if (
                level < depth and len(by_depth[level]) + bool(result) > 1
            ):  # a partial sum of its own, shared between expressions
                name = self._at(total((term, coefficient) for coefficient, term in by_depth[level]), bits).name
                result, at = (name, level) if not result else (self._add(result, name, bits, level), level)
                continue
            for coefficient, term in by_depth[level]:
                name = self._at(term, bits).name
                if abs(coefficient) != 1:
                    factor = self.text.constant(abs(coefficient), f"i{bits}")
                    name = self.text.op(f"arith.muli {name}, {factor} : i{bits}", level)
                if not result:
                    zero = self.text.constant(0, f"i{bits}")
                    result = name if coefficient > 0 else self.text.op(f"arith.subi {zero}, {name} : i{bits}", level)
                else:
                    verb = "addi" if coefficient > 0 else "subi"
                    result = self.text.op(f"arith.{verb} {result}, {name} : i{bits}", max(at, level))
                at = level
        return self._add(result, self.text.constant(constant, f"i{bits}"), bits, depth) if constant else result

    def _add(self, left: str, right: str, bits: int, depth: int) -> str:
        return self.text.op(f"arith.addi {left}, {right} : i{bits}", depth)

    def _operation(self, expr: Expr, bits: int, depth: int) -> str:
        if expr.kind in ("floordiv", "mod") and expr.args[1].is_const:
            return self._divide(expr, bits, depth)
        if expr.kind in ("floordiv", "mod"):
            return self._divide_by_size(expr, bits, depth)
        verb = {"product": "muli", "min": "minsi", "max": "maxsi", "xor": "xori"}[expr.kind]
        result = self._at(expr.args[0], bits).name
        for argument in expr.args[1:]:
            result = self.text.op(f"arith.{verb} {result}, {self._at(argument, bits).name} : i{bits}", depth)
        return result

    def _divide_by_size(self, expr: Expr, bits: int, depth: int) -> str:
        """That of an empty dim counts as 1: some processors trap at a division by 0."""
        divisor = expr.args[1]
        if not at_most(const(1), divisor.substitute(self.present)):
            divisor = maximum(divisor, 1)
        if self._has_reciprocal(expr.args[0], divisor, depth):
            return self._by_reciprocal(expr, divisor, bits, depth)
        value, size = (self._at(part, bits).name for part in (expr.args[0], divisor))
        if expr.kind == "mod" and _may_be_negative(expr.args[0]):
            return self._remainder(value, size, bits, depth)
        if is_natural(expr.args):
            verb = "divui" if expr.kind == "floordiv" else "remui"
        else:
            verb = "floordivsi" if expr.kind == "floordiv" else "remsi"
        return self.text.op(f"arith.{verb} {value}, {size} : i{bits}", depth)

    def _has_reciprocal(self, number: Expr, divisor: Expr, depth: int) -> bool:
        """Whether a quotient is a product, of a number that is computed in front of the block where the quotient is."""
        if not self.reciprocals or not is_natural((number, divisor)) or self.depth_of(divisor.symbols) >= depth:
            return False
        return (
            number.high is not None and divisor.high is not None and number.high * divisor.high < 1 << _places(divisor)
        )

    def _by_reciprocal(self, expr: Expr, divisor: Expr, bits: int, depth: int) -> str:
        """A quotient ``n // d``, or what it leaves, by ``m = (2ᵇ - 1) // d + 1``: ``m · d`` is up to ``d`` more than 2ᵇ, so
        that ``n · m`` has the quotient from bit b on while ``n · d`` is less than 2ᵇ."""
        number, places = self._at(expr.args[0], bits).name, _places(divisor)

        def reciprocal(depth: int) -> str:
            most = self.text.constant((1 << places) - 1 if places < 64 else -1, "i64")
            least = self.text.op(f"arith.divui {most}, {self._at(divisor, 64).name} : i64", depth)
            return self.text.op(f"arith.addi {least}, {self.text.constant(1, 'i64')} : i64", depth)

        def quotient(depth: int) -> str:
            counted = number
            if places < 64:  # the upper word of a product is at hand, other bits of it are shifted together
                counted = self.text.op(f"arith.shli {number}, {self.text.constant(1, f'i{bits}')} : i{bits}", depth)
            counted = self.text.op(f"arith.extui {counted} : i{bits} to i128", depth)
            wide = self.text.op(f"arith.extui {by} : i64 to i128", self.depth_of(divisor.symbols))
            product = self.text.op(f"arith.muli {counted}, {wide} : i128", depth)
            product = self.text.op(f"arith.shrui {product}, {self.text.constant(64, 'i128')} : i128", depth)
            return self.text.op(f"arith.trunci {product} : i128 to i{bits}", depth)

        by = self.once("reciprocal", divisor, reciprocal)
        found = self.once(("quotient", bits, divisor), expr.args[0], quotient)
        if expr.kind == "floordiv":
            return found
        size = self._at(divisor, bits).name
        return self._subtracted(number, self.text.op(f"arith.muli {found}, {size} : i{bits}", depth), bits, depth)

    def _divide(self, expr: Expr, bits: int, depth: int) -> str:
        """By a power of two that is a shift, of negative numbers too; MLIR makes half a dozen operations of a division
        that rounds down."""
        value, divisor = self._at(expr.args[0], bits).name, expr.args[1].value
        power, positive = divisor & (divisor - 1) == 0, expr.args[0].low is not None and expr.args[0].low >= 0
        if expr.kind == "floordiv":
            verb, by = (
                ("shrui" if positive else "shrsi", divisor.bit_length() - 1)
                if power
                else ("divui" if positive else "floordivsi", divisor)
            )
        elif power:
            verb, by = "andi", divisor - 1
        else:
            verb, by = "remui", divisor
            if not positive:
                return self._remainder(value, self.text.constant(divisor, f"i{bits}"), bits, depth)
        return self.text.op(f"arith.{verb} {value}, {self.text.constant(by, f'i{bits}')} : i{bits}", depth)

    def _remainder(self, value: str, size: str, bits: int, depth: int) -> str:
        """Of a division that rounds towards minus infinity, which MLIR has no operation for."""
        below = self.text.op(f"arith.floordivsi {value}, {size} : i{bits}", depth)
        return self._subtracted(value, self.text.op(f"arith.muli {below}, {size} : i{bits}", depth), bits, depth)

    def _subtracted(self, value: str, other: str, bits: int, depth: int) -> str:
        return self.text.op(f"arith.subi {value}, {other} : i{bits}", depth)


def _places(divisor: Expr) -> int:
    """Bits behind the point of a reciprocal that is a word: that of 1 has one more."""
    return 64 if divisor.low is not None and divisor.low > 1 else 63


def is_wide(expr: Expr) -> bool:
    """Whether computing ``expr`` takes 64 bits, each of its parts being computed in what that takes.

    Sums and products that fit in the end are right modulo 2³² on the way.
    """
    return not _fits(expr) or (expr.kind in _EXACT and not all(map(_fits, expr.args)))


def is_natural(parts: tuple[Any, ...]) -> bool:
    """Whether expressions are never negative."""
    return all(isinstance(part, Expr) and part.low is not None and part.low >= 0 for part in parts)


def _may_be_negative(expr: Expr) -> bool:
    """Whether the parts of an expression leave open that it is; its range alone does where it is divided by a size."""
    return not is_natural(expr.args if expr.kind == "floordiv" else (expr,))


def _fits(expr: Expr) -> bool:
    return expr.low is not None and expr.high is not None and _I32[0] <= expr.low and expr.high <= _I32[1]
