"""Index expressions of several elements go in, which differ in numbers alone; arithmetic on vectors of integers comes
out.

``(m + 0) // w, (m + 1) // w, ..`` is one division of vectors, where the last number is, like all others, that of a lane.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial, reduce
from operator import mul

from wavespec.emit.indices import Indices, is_wide
from wavespec.emit.mlir_text import MlirText
from wavespec.ir.expr import Expr, at_most, const, maximum, minimum, total

Exprs = tuple[Expr, ...]
"""One for each lane."""

_VERBS = {"product": "muli", "min": "minsi", "max": "maxsi"}


def are_same(exprs: Exprs) -> bool:
    """Whether all lanes have the same."""
    return all(expr is exprs[0] for expr in exprs)


@lru_cache(maxsize=1 << 12)
def are_alike(exprs: Exprs) -> bool:
    """Whether lanes differ in numbers alone, in a way that vectors are computed."""
    if are_same(exprs):
        return True
    columns = columns_of([expr.terms() for expr in exprs])
    return columns is not None and all(are_same(column) or _is_operation(column) for _, column in columns)


def columns_of(rows: Sequence[Sequence[tuple[int, Expr]]]) -> list[tuple[int, Exprs]] | None:
    """The terms of sums, each of all lanes with its factor, what lanes share first: the numbers in terms decide where
    they stand in a sum.  None where the factors of the others differ."""
    shared = [pair for pair in rows[0] if all(pair in row for row in rows)]
    own = [[pair for pair in row if pair not in shared] for row in rows]
    factors = [factor for factor, _ in own[0]]
    if any([factor for factor, _ in row] != factors for row in own):
        return None
    columns = [(factor, (term,) * len(rows)) for factor, term in shared]
    return columns + [(by, tuple(row[number][1] for row in own)) for number, by in enumerate(factors)]


def arguments_of(column: Exprs) -> list[Exprs] | None:
    """The parts of operations of one kind, each of all lanes, those of products in any order."""
    if column[0].kind != "product":
        return list(zip(*(expr.args for expr in column), strict=True))
    columns = columns_of([[(1, factor) for factor in expr.args] for expr in column])
    return None if columns is None else [column for _, column in columns]


def _is_operation(column: Exprs) -> bool:
    kind, count = column[0].kind, len(column[0].args)
    if kind in ("symbol", "const", "sum", "xor") or any(e.kind != kind or len(e.args) != count for e in column):
        return False
    if kind != "product" and any(map(_is_long, column)):
        return False
    if kind in ("floordiv", "mod") and not all(map(_is_counted, (part for expr in column for part in expr.args))):
        return False
    sides = arguments_of(column)
    return sides is not None and all(map(are_alike, sides))


@lru_cache(maxsize=1 << 12)
def _is_counted(expr: Expr) -> bool:
    """Whether a number is never negative, also where it is divided by a size that may be 0, which counts as 1."""
    divided = expr.kind == "floordiv" and all(map(_is_counted, expr.args))
    return divided or (expr.low is not None and expr.low >= 0)


@lru_cache(maxsize=1 << 12)
def _is_long(expr: Expr) -> bool:
    """Whether a number takes 64 bits: quotients and remainders take no more than what is divided."""
    if expr.kind in ("floordiv", "mod") and all(map(_is_counted, expr.args)):
        return any(map(_is_long, expr.args))
    return is_wide(expr)


class IndexVectors:
    """Computes what `are_alike` allows, each vector once, in the outermost block where it can be."""

    def __init__(self, text: MlirText, indices: Indices) -> None:
        self.text, self.indices = text, indices

    def vector(self, exprs: Exprs, bits: int) -> str:
        """SSA name of a vector of the lanes' numbers, of so many bits."""
        own = 64 if any(map(_is_long, exprs)) else 32
        name = self._once(own, exprs, lambda depth: self._sum(exprs, own, depth))
        if own == bits:
            return name
        verb = "extsi" if bits > own else "trunci"
        types = f"{self._type(exprs, own)} to {self._type(exprs, bits)}"
        return self._once(bits, exprs, lambda depth: self.text.op(f"arith.{verb} {name} : {types}", depth))

    def compared(self, left: Exprs, right: Exprs, how: str) -> str:
        """SSA name of a vector of bits, by the predicate ``how`` of a comparison of integers."""
        bits = 64 if any(map(_is_long, (*left, *right))) else 32
        if bits == 64 and how == "ult" and not any(map(_is_long, right)) and (cut := self._cut(left)):
            a, bits = cut, 32
        else:
            a = self.vector(left, bits)
        b = self.vector(right, bits)
        return self.text.op(f"arith.cmpi {how}, {a}, {b} : {self._type(left, bits)}", self._depth(left, right))

    def beyond(self, places: Exprs, sizes: Exprs) -> str:
        """SSA name of a vector of 32 bits that are 0 where a place is from 0 to less than a size; none where it takes
        more."""
        if any(_is_long(size) or size.low is None or size.low < 1 for size in sizes):
            return ""
        place = self._cut(places) if any(map(_is_long, places)) else self.vector(places, 32)
        if not place:
            return ""
        last, type_, depth = (
            self.vector(tuple(s - 1 for s in sizes), 32),
            self._type(places, 32),
            self._depth(places, sizes),
        )
        return self._join("subi", self._join("maxui", place, last, type_, depth), last, type_, depth)

    def behind(self, left: Exprs, right: Exprs) -> str:
        """SSA name of a vector of 32 bits that are 0 where a number is less than another one; none where that takes more."""
        if any(_is_long(side) or not _is_counted(side) for side in (*left, *right)):
            return ""
        type_, depth = self._type(left, 32), self._depth(left, right)
        a, b = self.vector(left, 32), self.vector(tuple(side - 1 for side in right), 32)
        return self._join("shrsi", self._join("subi", b, a, type_, depth), self.text.constant(31, type_), type_, depth)

    def unlike(self, exprs: Exprs, lane: int) -> str:
        """SSA name of a vector of 32 bits that are 0 where a lane has what this one has."""
        own, one = (self.vector(each, 32) for each in (exprs, (exprs[lane],) * len(exprs)))
        return self._join("xori", own, one, self._type(exprs, 32), self._depth(exprs))

    def _depth(self, *sides: Exprs) -> int:
        return max(self.indices.depth_of(side[0].symbols) for side in sides)

    def _cut(self, places: Exprs) -> str:
        """SSA name of places in 32 bits without a sign, as good as they are for comparisons with sizes; none where what
        lanes add to what they share is no number of 31 bits.

        What they share may be cut off at 31 bits and a sign: it is beyond every size then, or so far in front that no lane
        comes back, and no sum of both has more than 32 bits.
        """
        columns, numbers = columns_of([place.terms() for place in places]), {place.constant_part() for place in places}
        if columns is None or len(numbers) > 1:
            return ""
        own = [(by, column) for by, column in columns if not are_same(column)]
        if len(own) != 1 or own[0][0] != 1 or any(_is_long(lane) or not _is_counted(lane) for lane in own[0][1]):
            return ""
        shared = total((column[0], by) for by, column in columns if are_same(column)) + numbers.pop()
        base = minimum(maximum(shared, -(2**31)), 2**31 - 1)
        lanes, from_ = (self.vector(exprs, 32) for exprs in (own[0][1], (base,) * len(places)))
        return self._join("addi", lanes, from_, self._type(places, 32), self._depth(places))

    def tell_lanes(self, exprs: Exprs, lanes: Sequence[int]) -> None:
        """Take what these lanes have from the vector, wherever it is asked for: a number is not divided again."""
        name, type_ = self.vector(exprs, 32), self._type(exprs, 32)
        for lane in lanes:

            def taken(depth: int, lane: int = lane) -> str:
                return self.text.op(f"vector.extract {name}[{lane}] : i32 from {type_}", depth)

            self.indices.know(exprs[lane], 32, taken)

    def _once(self, bits: int, exprs: Exprs, make: Callable[[int], str]) -> str:
        return self.indices.once((bits, exprs), exprs[0], make)

    def _type(self, exprs: Exprs, bits: int) -> str:
        return f"vector<{len(exprs)}xi{bits}>"

    def _sum(self, exprs: Exprs, bits: int, depth: int) -> str:
        """The terms that all lanes share as one number, and the others as vectors."""
        type_ = self._type(exprs, bits)
        if are_same(exprs):
            return self.text.op(f"vector.broadcast {self.indices.integer(exprs[0], bits)} : i{bits} to {type_}", depth)
        columns = columns_of([expr.terms() for expr in exprs])
        assert columns is not None
        shared = total((column[0], by) for by, column in columns if are_same(column))
        numbers = tuple(expr.constant_part() for expr in exprs)
        parts: list[str] = []
        for by, column in columns:
            if not are_same(column):
                part = self._once(bits, column, lambda at, of=column: self._operation(of, bits, at))
                parts.append(part if by == 1 else self._join("muli", part, self.text.constant(by, type_), type_, depth))
        if len(set(numbers)) == 1:
            shared += numbers[0]
        else:
            parts.append(self.text.numbers(numbers, type_))
        if shared is not const(0):
            parts.append(self.vector((shared,) * len(exprs), bits))
        result = parts[0]
        for part in parts[1:]:
            result = self._join("addi", result, part, type_, depth)
        return result

    def _operation(self, column: Exprs, bits: int, depth: int) -> str:
        kind, type_ = column[0].kind, self._type(column, bits)
        if kind in ("floordiv", "mod"):
            return self._divided(kind, column, bits, depth)
        sides = arguments_of(column)
        assert sides is not None
        names = [self.vector(side, bits) for side in sides]
        result = names[0]
        for name in names[1:]:
            result = self._join(_VERBS[kind], result, name, type_, depth)
        return result

    def _divided(self, kind: str, column: Exprs, bits: int, depth: int) -> str:
        values, sizes = (tuple(expr.args[side] for expr in column) for side in (0, 1))
        type_ = self._type(column, 32)
        result = self.indices.once(
            ("quotient", values, sizes), values[0] // sizes[0], partial(self._quotient, values, sizes)
        )
        if kind == "mod":
            size = self.vector(tuple(map(self._at_least_one, sizes)), 32)
            value, part = self.vector(values, 32), self._join("muli", result, size, type_, depth)
            result = self._join("subi", value, part, type_, depth)
        if bits == 32:
            return result
        return self.text.op(f"arith.extsi {result} : {type_} to {self._type(column, bits)}", depth)

    def _quotient(self, values: Exprs, sizes: Exprs, depth: int) -> str:
        """By numbers of 53 bits: no machine divides vectors of integers.

        Of ``(x + 1/2) / d`` the whole part is that of ``x / d``, and no quotient is nearer to another one than ``1/2d``:
        2²¹ times what a reciprocal and a product of numbers of 31 bits err, so that nothing is divided in a loop.
        A quotient of a quotient does not wait for that.
        """
        divisors = [sizes]
        while all(value.kind == "floordiv" for value in values):
            divisors.append(tuple(value.args[1] for value in values))
            values = tuple(value.args[0] for value in values)
        double, length = f"vector<{len(values)}xf64>", len(values)
        divisor = reduce(mul, (sizes[0] for sizes in divisors))
        by = self.indices.once(("reciprocal", *divisors), divisor, partial(self._reciprocal, divisors))
        number = self.text.op(f"arith.sitofp {self.vector(values, 32)} : vector<{length}xi32> to {double}", depth)
        half = self.text.op(f"arith.constant dense<0.5> : {double}", 0)
        number = self._join("mulf", self._join("addf", number, half, double, depth), by, double, depth)
        return self.text.op(f"arith.fptosi {number} : {double} to vector<{length}xi32>", depth)

    def _reciprocal(self, divisors: Sequence[Exprs], depth: int) -> str:
        """That of a product, which has so many bits that quotients by it are 0 before it is no number of 53."""
        double = f"vector<{len(divisors[0])}xf64>"
        sizes = [self.vector(tuple(map(self._at_least_one, each)), 32) for each in divisors]
        numbers = [self.text.op(f"arith.sitofp {s} : {self._type(divisors[0], 32)} to {double}", depth) for s in sizes]
        one = self.text.op(f"arith.constant dense<1.0> : {double}", 0)
        product = reduce(lambda left, right: self._join("mulf", left, right, double, depth), numbers)
        return self._join("divf", one, product, double, depth)

    def _at_least_one(self, size: Expr) -> Expr:
        return size if at_most(const(1), size.substitute(self.indices.present)) else maximum(size, 1)

    def _join(self, verb: str, left: str, right: str, type_: str, depth: int) -> str:
        return self.text.op(f"arith.{verb} {left}, {right} : {type_}", depth)
