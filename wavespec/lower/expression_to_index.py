"""An expression of a spec goes in; the index expression that a kernel computes comes out."""

from __future__ import annotations

from collections.abc import Mapping

from wavespec.diagnostics import WavespecError, Where, quote
from wavespec.ir.expr import Expr, const, maximum, minimum, symbol
from wavespec.ir.saturating import is_large_number, minus, plus, saturated, times
from wavespec.schema.language.expressions import Binary, Call, Compare, Expression, Name, Num, Unary
from wavespec.schema.resolve import part_of


class NoIndex(WavespecError, code="no-index"):
    def __init__(self, where: Where, why: str, hint: str) -> None:
        super().__init__(where, f"This is no place that a kernel can compute: {why}.", hints=[hint])


class ExpressionToIndex:
    """Converts expressions of one spec.

    Args:
        values: the parameters, and dims of one size.
        sizes: the size of every dim.

    ``start(DIM)`` and ``end(DIM)`` become symbols, which `AssignTiles` replaces.
    """

    def __init__(self, values: Mapping[str, int], sizes: Mapping[str, Expr]) -> None:
        self.values, self.sizes = values, sizes

    def place(self, expression: Expression, where: Where, values: Mapping[str, Expr]) -> Expr:
        """The integer ``expression``, which is written at ``where``; ``values``: what stands for values."""
        match expression:
            case Num(value=int(value)):
                return const(value)
            case Num():
                raise NoIndex(part_of(where, expression), "places are whole numbers", "Write an integer.")
            case Name(name=name):
                if name in values:
                    return values[name]
                return const(self.values[name]) if name in self.values else self.sizes[name]
            case Unary(operand=operand):
                return -self.place(operand, where, values)
            case Binary(op=sign, left=left, right=right):
                parts = self.place(left, where, values), self.place(right, where, values)
                is_large = any(name in values and is_large_number(values[name]) for name in expression.names())
                return self._binary(sign, *parts, part_of(where, expression), is_large=is_large)
            case Call(function="start" | "end" as function, arguments=(Name(name=dim),)):
                return place_symbol(function, dim, self.sizes[dim])
            case Call(function="size", arguments=(Name(name=dim),)):
                return self.sizes[dim]
            case Call(function=function, arguments=arguments):
                first, *rest = (self.place(argument, where, values) for argument in arguments)
                for other in rest:
                    first = self._call(function, first, other, part_of(where, expression))
                return first
            case _:
                raise NoIndex(part_of(where, expression), "it is a condition", "Write a number.")

    def condition(self, expression: Expression, where: Where, values: Mapping[str, Expr]) -> Expr:
        """1 where the comparison ``expression`` holds, else 0."""
        assert isinstance(expression, Compare)
        left, right = self.place(expression.left, where, values), self.place(expression.right, where, values)
        if any(is_large_number(value) for value in values.values()):
            left, right = saturated(left), saturated(right)
        match expression.op:
            case "<" | ">":
                return _holds(right - left if expression.op == "<" else left - right)
            case "<=" | ">=":
                return _holds((right - left if expression.op == "<=" else left - right) + 1)
            case sign:
                differ = _holds(maximum(left - right, right - left))
                return differ if sign == "!=" else 1 - differ

    def _binary(self, sign: str, left: Expr, right: Expr, where: Where, *, is_large: bool) -> Expr:
        """``is_large``: whether numbers of 64 bits that nobody knows are in it, so that it could wrap."""
        match sign:
            case "+":
                return plus(left, right) if is_large else left + right
            case "-":
                return minus(left, right) if is_large else left - right
            case "*":
                return times(left, right) if is_large else left * right
            case _:
                return self._quotient(sign, left, right, where)

    def _quotient(self, sign: str, left: Expr, right: Expr, where: Where) -> Expr:
        if right.low is None or right.low < 1:
            raise NoIndex(where, "the divisor may be 0", "Divide by a parameter, or use max(..., 1).")
        if sign == "/" and not (right.is_const and left.divisor % right.value == 0):
            hint = f"Write {quote('//')}, which rounds down, or promise a multiple of the divisor."
            raise NoIndex(where, "the quotient need not be a whole number", hint)
        return left % right if sign == "%" else left // right

    def _call(self, function: str, left: Expr, right: Expr, where: Where) -> Expr:
        if function == "ceildiv":
            return self._quotient("//", left + right - 1, right, where)
        return minimum(left, right) if function == "min" else maximum(left, right)


def place_symbol(function: str, dim: str, size: Expr) -> Expr:
    """The symbol of where the current tile of a dim starts or ends."""
    return symbol(f"{dim}.{function}", 0, size.high)


def _holds(positive: Expr) -> Expr:
    """1 where a number is above 0."""
    return minimum(1, maximum(0, positive))
