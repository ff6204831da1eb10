"""Arrays with named dims go in; what functions, casts and expressions of places make of them comes out.

All floating point is f64, whatever its type, and whole numbers wrap as theirs do, as in `function_values`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from wavespec.ir.dtype import DTYPES
from wavespec.schema.checking.function_values import function_value
from wavespec.schema.language.expressions import Binary, Call, Compare, Expression, Name, Num, Unary
from wavespec.schema.ops.elementwise import Elementwise, dtype_of_numbers, shared_dims

Array: TypeAlias = NDArray[Any]


class Unknown(Exception):
    """What is computed is not known, or not decided, by these arrays."""


@dataclass(frozen=True, slots=True)
class Value:
    """Elements along ``dims``, in order: f64 where ``dtype`` is floating point, i64 of integers, bool."""

    dims: tuple[str, ...]
    dtype: str
    array: Array

    def along(self, dims: Sequence[str]) -> Array:
        """The elements with the axes ``dims``, of one element where the value lacks a dim."""
        own = [dim for dim in dims if dim in self.dims]
        array = self.array if tuple(own) == self.dims else self.array.transpose([self.dims.index(dim) for dim in own])
        return array if len(own) == len(dims) else array[tuple(slice(None) if d in self.dims else None for d in dims)]

    def number(self) -> int:
        """The one number that all elements are.

        Raises:
            Unknown: there are several.
        """
        first = self.array.flat[0] if self.array.size else None
        if first is None or not (self.array == first).all():
            raise Unknown
        return int(first)


def held_as(dtype: str) -> type[np.generic]:
    """How elements of ``dtype`` are held."""
    row = DTYPES[dtype]
    return np.float64 if row.is_float else np.bool_ if row.kind == "bool" else np.int64


def as_type(array: Array, dtype: str) -> Array:
    """Numbers as elements of ``dtype``: cut off and wrapped where that is an integer."""
    row = DTYPES[dtype]
    if row.kind in ("int", "uint"):
        if array.dtype == np.float64 and not np.isfinite(array).all():
            raise Unknown
        whole = array.astype(np.int64)
        if row.bits == 64:
            return whole
        least = int(row.smallest)
        return (whole - least) % (1 << row.bits) + least
    return array.astype(held_as(dtype), copy=False)


def function(op: Elementwise, operands: Sequence[Value | int | float]) -> Value:
    """What an elementwise op makes of values and numbers."""
    typed = [one for field, one in zip(op.headline, operands, strict=True) if field not in op.flags]
    dtypes = [one.dtype for one in typed if isinstance(one, Value)]
    dtype = dtypes[0] if dtypes else dtype_of_numbers([one for one in typed if not isinstance(one, Value)])
    dims = shared_dims(one.dims for one in operands if isinstance(one, Value))
    held = held_as(dtype)
    arrays = [one.along(dims) if isinstance(one, Value) else np.array(one).astype(held) for one in operands]
    made = "bool" if op.function.result == "bool" else dtype
    known = FUNCTIONS_OF_ARRAYS.get(op.word)
    if known is not None:
        return Value(dims, made, as_type(np.asarray(known(*arrays)), made))
    one_by_one = np.frompyfunc(lambda *numbers: function_value(op.word, made, numbers), len(arrays), 1)
    found = np.asarray(one_by_one(*(one.astype(object) for one in arrays)), dtype=object)
    if not DTYPES[made].is_float and any(number != number for number in found.flat):  # NaN: no quotient, say
        raise Unknown
    return Value(dims, made, found.astype(held_as(made)))


def evaluate(expression: Expression, known: Mapping[str, Any]) -> Any:
    """A number, or an array of them, with what names and calls such as `size(N)` stand for in ``known``.

    Raises:
        Unknown: a name is not known, or something is divided by 0 or into parts.
    """
    match expression:
        case Num(value=number):
            return number
        case Name() | Call() if str(expression) in known:
            return known[str(expression)]
        case Unary(operand=operand):
            return -evaluate(operand, known)
        case Binary(op=sign, left=left, right=right) | Compare(op=sign, left=left, right=right):
            one, other = evaluate(left, known), evaluate(right, known)
            if sign in ("/", "//", "%") and not np.all(other):
                raise Unknown
            if sign == "/" and np.any(one % other):
                raise Unknown
            return _SIGNS[sign](one, other)
        case Call(function=word, arguments=arguments) if word in _CALLS:
            return reduce(_CALLS[word], (evaluate(one, known) for one in arguments))
        case _:
            raise Unknown


def _rsqrt(value: Array) -> Array:
    return 1 / np.sqrt(value)


def _reciprocal(value: Array) -> Array:
    return 1 / value


_OfTwo: TypeAlias = Callable[[Any, Any], Any]
_SIGNS: dict[str, _OfTwo] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": lambda one, other: one // other,
    "//": lambda one, other: one // other,
    "%": operator.mod,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}
_CALLS: dict[str, _OfTwo] = {
    "min": np.minimum,
    "max": np.maximum,
    "ceildiv": lambda one, other: -(-one // other),
    "xor": lambda one, other: one ^ other,
}
JOINS: Mapping[str, Any] = {"add": np.add, "mul": np.multiply, "maximum": np.maximum, "minimum": np.minimum}
"""What joins elements of reductions, scans and writes."""
FUNCTIONS_OF_ARRAYS: dict[str, Any] = {
    **JOINS,
    "sub": np.subtract,
    "div": np.divide,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "eq": np.equal,
    "ne": np.not_equal,
    "logical_and": np.logical_and,
    "logical_or": np.logical_or,
    "logical_not": np.logical_not,
    "where": np.where,
    "neg": operator.neg,
    "abs": np.abs,
    "exp": np.exp,
    "exp2": np.exp2,
    "log": np.log,
    "log2": np.log2,
    "tanh": np.tanh,
    "sqrt": np.sqrt,
    "rsqrt": _rsqrt,
    "reciprocal": _reciprocal,
}
"""Functions that numpy has as `function_value` does, many elements at a time."""
