"""Values go in; products, reductions, scans and places of extremes come out, of those elements that there are."""

from __future__ import annotations

from collections.abc import Sequence
from string import ascii_letters

import numpy as np

from wavespec.schema.checking.array_values import JOINS, Array, Unknown, Value, as_type
from wavespec.schema.ops import ArgReduce, Reduce, Scan, Topk


def multiplied(lhs: Value, rhs: Value, acc: Value, *scales: Value) -> Value:
    """The product of both added to ``acc``; ``scales``: what their elements are multiplied by first.

    Raises:
        Unknown: there are more dims than letters.
    """
    operands = [lhs, rhs]
    if scales:
        pairs = zip(operands, scales, strict=True)
        operands = [Value(one.dims, one.dtype, one.array * factor.along(one.dims)) for one, factor in pairs]
    dims = dict.fromkeys((*lhs.dims, *rhs.dims, *acc.dims))
    if len(dims) > len(ascii_letters):
        raise Unknown
    letters = dict(zip(dims, ascii_letters, strict=False))
    left, right = ("".join(letters[dim] for dim in one.dims) for one in operands)
    kept = tuple(dim for dim in acc.dims if dim in lhs.dims or dim in rhs.dims)
    made = np.einsum(f"{left},{right}->{''.join(letters[dim] for dim in kept)}", *(one.array for one in operands))
    total = acc.array + Value(kept, acc.dtype, made).along(acc.dims)
    return Value(acc.dims, acc.dtype, as_type(total, acc.dtype))


def reduced(op: Reduce, values: Sequence[Value], init: Value | None, count: int) -> Value:
    """The elements of all values joined, onto ``init``; a mean is divided by ``count``."""
    first, join = values[0], JOINS[op.reduction.function]
    kept = tuple(dim for dim in first.dims if dim not in op.along)
    result = None if init is None else init.along(kept)
    for value in values:
        array = np.asarray(join.reduce(value.array, axis=tuple(value.dims.index(dim) for dim in op.along)))
        array = array / count if op.reduction.divided else array
        left = tuple(dim for dim in value.dims if dim not in op.along)
        part = Value(left, first.dtype, as_type(array, first.dtype)).along(kept)
        result = part if result is None else join(result, part)
    return Value(kept, first.dtype, as_type(np.asarray(result), first.dtype))


def accumulated(op: Scan, value: Value, init: Value | None) -> Value:
    """Each element along the dim joined with all before it, and ``init``."""
    join, axis = JOINS[op.scan.function], value.dims.index(op.dim)
    array = join.accumulate(np.flip(value.array, axis) if op.reverse else value.array, axis)
    if init is not None:
        array = join(init.along(value.dims), array)
    return Value(value.dims, value.dtype, as_type(np.flip(array, axis) if op.reverse else array, value.dtype))


def first_place(op: ArgReduce, value: Value, start: int, init: tuple[Value, ...] | None) -> tuple[Value, Value]:
    """Where the extreme is, counted from ``start``, and what it is; ``init``: the ones before."""
    kept = tuple(dim for dim in value.dims if dim != op.dim)
    before = None if init is None else [one.along(kept)[..., None] for one in reversed(init)]
    numbers, places = _first_of(value.along((*kept, op.dim)), start, 1, before, largest=op.row.largest)
    return Value(kept, op.dtype, places[..., 0]), Value(kept, value.dtype, numbers[..., 0])


def first_numbers(
    op: Topk, value: Value, place: int | Value, count: int, init: tuple[Value, ...] | None
) -> tuple[Value, Value]:
    """The ``count`` first elements and their places, counted from the first ``place`` if that is a number; ``init``:
    those before."""
    kept = tuple(dim for dim in value.dims if dim != op.dim)
    made = tuple(op.k if dim == op.dim else dim for dim in value.dims)
    before = None if init is None else [one.along((*kept, op.k)) for one in init]
    places = place if isinstance(place, int) else place.along((*kept, op.dim))
    found = _first_of(value.along((*kept, op.dim)), places, count, before, largest=op.largest)
    dtypes = (value.dtype, op.dtype)
    pairs = zip(found, dtypes, strict=True)
    numbers, made_of = (Value(made, dtype, Value((*kept, op.k), dtype, one).along(made)) for one, dtype in pairs)
    return numbers, made_of


def _first_of(
    array: Array, first: int | Array, count: int, before: Sequence[Array] | None, *, largest: bool
) -> tuple[Array, Array]:
    """The first elements by size along the last axis and their places, of equal ones the first.

    Raises:
        Unknown: there are fewer, or some are NaN.
    """
    number: Array = array
    along = np.array(range(first, first + array.shape[-1])) if isinstance(first, int) else first
    place: Array = np.broadcast_to(along, array.shape)
    if before is not None:
        wide = [np.broadcast_to(one, (*array.shape[:-1], one.shape[-1])) for one in before]
        number, place = np.concatenate([wide[0], number], -1), np.concatenate([wide[1], place], -1)
    if number.shape[-1] < count or (number.dtype == np.float64 and np.isnan(number).any()):
        raise Unknown
    by_place = np.argsort(place, -1, kind="stable")
    number, place = np.take_along_axis(number, by_place, -1), np.take_along_axis(place, by_place, -1)
    plain: Array = number.astype(np.int64) if number.dtype == np.bool_ else number
    order = np.argsort(-plain if largest else plain, -1, kind="stable")[..., :count]
    return np.take_along_axis(number, order, -1), np.take_along_axis(place, order, -1)
