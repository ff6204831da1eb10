"""What calls of the builder hand out: symbols and values, on which Python's operators write the text of expressions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from wavespec.schema.language.expressions import Binary, Call, Compare, Expression, Name, Num, Unary


@dataclass(frozen=True, slots=True, eq=False)
class Symbol:
    """A dim, a parameter, a scalar, or arithmetic of them: `BLOCK_M / 2`, `K > 4 * BLOCK_K`."""

    expression: Expression

    def __str__(self) -> str:
        return str(self.expression)

    def __add__(self, other: Symbol | int) -> Symbol:
        return self._binary("+", other)

    def __radd__(self, other: int) -> Symbol:
        return as_symbol(other)._binary("+", self)

    def __sub__(self, other: Symbol | int) -> Symbol:
        return self._binary("-", other)

    def __rsub__(self, other: int) -> Symbol:
        return as_symbol(other)._binary("-", self)

    def __mul__(self, other: Symbol | int) -> Symbol:
        return self._binary("*", other)

    def __rmul__(self, other: int) -> Symbol:
        return as_symbol(other)._binary("*", self)

    def __truediv__(self, other: Symbol | int) -> Symbol:
        return self._binary("/", other)

    def __rtruediv__(self, other: int) -> Symbol:
        return as_symbol(other)._binary("/", self)

    def __floordiv__(self, other: Symbol | int) -> Symbol:
        return self._binary("//", other)

    def __rfloordiv__(self, other: int) -> Symbol:
        return as_symbol(other)._binary("//", self)

    def __mod__(self, other: Symbol | int) -> Symbol:
        return self._binary("%", other)

    def __rmod__(self, other: int) -> Symbol:
        return as_symbol(other)._binary("%", self)

    def __neg__(self) -> Symbol:
        return Symbol(Unary("-", self.expression))

    def __lt__(self, other: Symbol | int) -> Symbol:
        return self._compare("<", other)

    def __le__(self, other: Symbol | int) -> Symbol:
        return self._compare("<=", other)

    def __gt__(self, other: Symbol | int) -> Symbol:
        return self._compare(">", other)

    def __ge__(self, other: Symbol | int) -> Symbol:
        return self._compare(">=", other)

    def equals(self, other: Symbol | int) -> Symbol:
        """`self == other` as a condition; `==` itself compares Python objects."""
        return self._compare("==", other)

    def _binary(self, op: str, other: Symbol | int) -> Symbol:
        if isinstance(other, Arithmetic):
            return NotImplemented
        return Symbol(Binary(op, self.expression, as_symbol(other).expression))

    def _compare(self, op: str, other: Symbol | int) -> Symbol:
        return Symbol(Compare(op, self.expression, as_symbol(other).expression))


def as_symbol(value: Symbol | int) -> Symbol:
    """A number as a symbol, which it may be already."""
    return value if isinstance(value, Symbol) else Symbol(Num(value))


def minimum(*operands: Symbol | int) -> Symbol:
    return Symbol(Call("min", tuple(as_symbol(operand).expression for operand in operands)))


def maximum(*operands: Symbol | int) -> Symbol:
    return Symbol(Call("max", tuple(as_symbol(operand).expression for operand in operands)))


def ceildiv(left: Symbol | int, right: Symbol | int) -> Symbol:
    return Symbol(Call("ceildiv", (as_symbol(left).expression, as_symbol(right).expression)))


def bits(dtype: str) -> Symbol:
    """The bits of an element of the type that `KernelBuilder.dtype` has a name for."""
    return Symbol(Call("bits", (Name(dtype),)))


def mantissa(dtype: str) -> Symbol:
    """The bits of the mantissa that are written, of the type that `KernelBuilder.dtype` has a name for."""
    return Symbol(Call("mantissa", (Name(dtype),)))


def start(dim: Symbol | str) -> Symbol:
    """The first element of the current tile of a dim, in a condition or a bound of a loop."""
    return _place("start", dim)


def end(dim: Symbol | str) -> Symbol:
    """One past the last element of the current tile of a dim."""
    return _place("end", dim)


def size(dim: Symbol | str) -> Symbol:
    """The size of a dim."""
    return _place("size", dim)


def _place(function: str, dim: Symbol | str) -> Symbol:
    return Symbol(Call(function, (Name(str(dim)),)))


class Arithmetic:
    """What values, and expressions of them, can be written with: operators that make text."""

    __slots__ = ()

    def __add__(self, other: Operand) -> Formula:
        return _formula(self, "+", other)

    def __radd__(self, other: float) -> Formula:
        return _formula(other, "+", self)

    def __sub__(self, other: Operand) -> Formula:
        return _formula(self, "-", other)

    def __rsub__(self, other: float) -> Formula:
        return _formula(other, "-", self)

    def __mul__(self, other: Operand) -> Formula:
        return _formula(self, "*", other)

    def __rmul__(self, other: float) -> Formula:
        return _formula(other, "*", self)

    def __truediv__(self, other: Operand) -> Formula:
        return _formula(self, "/", other)

    def __rtruediv__(self, other: float) -> Formula:
        return _formula(other, "/", self)

    def __floordiv__(self, other: Operand) -> Formula:
        return _formula(self, "//", other)

    def __mod__(self, other: Operand) -> Formula:
        return _formula(self, "%", other)

    def __pow__(self, other: Operand) -> Formula:
        return _formula(self, "**", other)

    def __and__(self, other: Operand) -> Formula:
        return _formula(self, "&", other)

    def __or__(self, other: Operand) -> Formula:
        return _formula(self, "|", other)

    def __lt__(self, other: Operand) -> Formula:
        return _formula(self, "<", other)

    def __le__(self, other: Operand) -> Formula:
        return _formula(self, "<=", other)

    def __gt__(self, other: Operand) -> Formula:
        return _formula(self, ">", other)

    def __ge__(self, other: Operand) -> Formula:
        return _formula(self, ">=", other)

    def __neg__(self) -> Formula:
        return Formula(f"-{_operand(self)}")

    def __invert__(self) -> Formula:
        return Formula(f"~{_operand(self)}")


@dataclass(frozen=True, slots=True)
class Value(Arithmetic):
    """A value of the graph, or a tensor, by its name."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Formula(Arithmetic):
    """An expression of values that is not in the graph yet: `KernelBuilder.formula` gives it a name."""

    text: str

    def __str__(self) -> str:
        return self.text


Operand = Arithmetic | Symbol | float
IndexMap = Mapping[str, Arithmetic | Symbol | str | int]
"""Dim of a tensor: index of the element."""


def call(function: str, *operands: Operand) -> Formula:
    """A function of expressions, such as an elementwise op or an element type, of values: `call("exp", x)`."""
    return Formula(f"{function}({', '.join(map(str, operands))})")


def _formula(left: Operand, sign: str, right: Operand) -> Formula:
    return Formula(f"{_operand(left)} {sign} {_operand(right)}")


def _operand(operand: Operand) -> str:
    text = str(operand)
    return text if isinstance(operand, Value | float | int) or text.isidentifier() else f"({text})"


@dataclass(slots=True)
class Loop:
    """An `iterate` or `if`: `loop["acc"]` is the incoming value inside the `with`, and the last one after it."""

    name: str
    is_open: bool = True

    def __getitem__(self, carried: str) -> Value:
        return Value(carried if self.is_open else f"{self.name}.{carried}")
