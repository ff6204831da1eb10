"""A graph, small arrays and tiles go in; what the kernel writes comes out, tile by tile, as its loops have it.

A few arrays of a few elements, so that a check can look at what a body makes of other tiles. Without tiles each dim is
one tile: that is what the graph means, and then bounds of loops leave nothing out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from wavespec.schema.checking.array_values import Array, Unknown, Value, as_type, evaluate, function, held_as
from wavespec.schema.checking.joined_values import accumulated, first_numbers, first_place, multiplied, reduced
from wavespec.schema.language.expressions import Expression
from wavespec.schema.language.models import Tensor
from wavespec.schema.ops import (
    AnyOp,
    ArgReduce,
    Assert,
    Atomic,
    Branch,
    Cast,
    Debug,
    Elementwise,
    Index,
    Iterate,
    Joined,
    Mma,
    Random,
    Read,
    Reduce,
    Register,
    Repeat,
    Scan,
    ScanBy,
    Size,
    Take,
    Topk,
    Write,
)
from wavespec.schema.ops.mapping import values_of

_MOST_ELEMENTS, _MOST_STEPS = 1 << 13, 32
_ALLOWED = 1e-4
"""Of what is larger than 1 relative to it: above what rounding does, below a mistake."""
_COMBINED: Mapping[str, Any] = {
    "add": np.add,
    "max": np.maximum,
    "min": np.minimum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}


class TiledRun:
    """One run of a graph.

    Args:
        tensors: those of the spec by name.
        sizes: of all dims.
        params: numbers by name: parameters of the spec.
        inputs: what tensors hold, those that are changed in place among them.
        scalars: what scalars are.
        tiles: elements of a tile by dim, which divide its size; loops over other dims have one tile.
        bounded: whether bounds of loops, and branches on places, leave out what they say.
    """

    def __init__(
        self,
        tensors: Mapping[str, Tensor],
        sizes: Mapping[str, int],
        params: Mapping[str, int],
        inputs: Mapping[str, Array],
        scalars: Mapping[str, Value],
        tiles: Mapping[str, int],
        *,
        bounded: bool,
    ) -> None:
        self.tensors, self.sizes, self.params, self.tiles, self.bounded = tensors, sizes, params, tiles, bounded
        self.inputs, self.scalars = inputs, scalars
        self.ranges = {dim: (0, size) for dim, size in sizes.items()}
        self.names: dict[str, Value] = {}
        self.written = {
            name: np.array(inputs[name]) if tensor.role == "inout" else self._zeros(tensor)
            for name, tensor in tensors.items()
            if tensor.role != "input"
        }
        self.ends: dict[str, Value] = {}
        """What loops have made, as `loop.name`."""

    def run(self, statements: Sequence[AnyOp]) -> None:
        """Fill `written`.

        Raises:
            Unknown: a statement has no value here that could be told.
        """
        self.names = {**self.scalars}
        with np.errstate(all="ignore"):
            self._body(statements)

    def _zeros(self, tensor: Tensor) -> Array:
        return np.zeros([self.sizes[dim] for dim in tensor.shape], held_as(tensor.dtype))

    def _body(self, statements: Sequence[AnyOp]) -> None:
        for op in statements:
            self._step(op)

    def _step(self, op: AnyOp) -> None:
        match op:
            case Iterate():
                self._iterate(op)
            case Repeat():
                self._repeat(op)
            case Branch():
                self._branch(op)
            case Write():
                self._write(op)
            case Atomic():
                raise Unknown  # old values are those of one order, which tiles change
            case Joined():
                self._joined(op)
            case ArgReduce() | Topk():
                self._ranked(op)
            case Debug() | Assert():
                pass
            case _:
                value = self._value(op)
                if value.array.size > _MOST_ELEMENTS:
                    raise Unknown
                self.names[op.name] = value

    def _value(self, op: AnyOp) -> Value:
        match op:
            case Register(shape=dims, dtype=dtype, value=number):
                return Value(dims, dtype, np.full(self._extents(dims), number, held_as(dtype)))
            case Index(dim=dim, dtype=dtype):
                return Value((dim,), dtype, np.arange(*self.ranges[dim]))
            case Size(dim=dim, dtype=dtype):
                return Value((), dtype, np.array(self.sizes[dim]).astype(held_as(dtype)))
            case Cast(value=name, dtype=dtype):
                value = self._named(name)
                return Value(value.dims, dtype, as_type(value.array, dtype))
            case Elementwise():
                fields = [getattr(op, field) for field in op.headline]
                return function(op, [self._named(one) if isinstance(one, str) else one for one in fields])
            case Random():
                return self._random(op)
            case Read():
                return self._read(op)
            case Take():
                value = self._named(op.value)
                dims = value.dims if op.dims is None else op.dims
                starts = {dim: self.ranges[dim][0] for dim in value.dims}
                held = {dim: extent for dim, extent in zip(value.dims, value.array.shape, strict=True)}
                at, inside = self._places(op, value.dims, dims)
                return Value(dims, value.dtype, _taken(value.array, value.dims, at, inside, starts, held))
            case Mma():
                operands = [self._named(name) for name in (op.lhs, op.rhs, op.acc, *(op.scales or ()))]
                return multiplied(*operands)
            case Reduce():
                init = None if op.init is None else self._named(op.init)
                count = prod(self.sizes[dim] for dim in op.along)
                return reduced(op, [self._named(name) for name in op.values], init, count)
            case Scan():
                init = None if op.init is None else self._named(op.init)
                return accumulated(op, self._named(op.value), init)
            case _:
                raise Unknown

    def _named(self, name: str) -> Value:
        """A value, which has the tiles that its dims have here."""
        value = self.names[name]
        if value.array.shape != self._extents(value.dims):
            raise Unknown
        return value

    def _extents(self, dims: Sequence[str]) -> tuple[int, ...]:
        return tuple(self.ranges[dim][1] - self.ranges[dim][0] for dim in dims)

    def _random(self, op: Random) -> Value:
        seed = self._named(op.seed).number() if isinstance(op.seed, str) else op.seed
        place: Array = np.zeros((), np.int64)
        for dim in op.dims:
            place = place[..., None] * self.sizes[dim] + np.arange(*self.ranges[dim])
        share = np.sin(place * 12.9898 + seed % 97) * 43758.5453 % 1
        return Value(op.dims, op.dtype, share if op.dtype == "f32" else (share * 2**32).astype(np.int64) - 2**31)

    def _read(self, op: Read) -> Value:
        tensor = self.tensors[op.tensor]
        dims = tensor.shape if op.dims is None else op.dims
        whole = Value(tensor.shape, tensor.dtype, self.inputs[op.tensor])
        if not op.at:
            part = tuple(slice(*self.ranges[dim]) for dim in tensor.shape)
            return Value(dims, tensor.dtype, Value(tensor.shape, tensor.dtype, whole.array[part]).along(dims))
        at, inside = self._places(op, tensor.shape, dims)
        nothing = dict.fromkeys(tensor.shape, 0)
        return Value(dims, tensor.dtype, _taken(whole.array, tensor.shape, at, inside, nothing, self.sizes))

    def _places(
        self, op: Read | Take | Write, shape: Sequence[str], dims: tuple[str, ...]
    ) -> tuple[dict[str, Array], Array]:
        """For each dim of the ``shape`` of what is accessed the index of every element along ``dims``, and whether all
        of them are inside."""
        known = self._known() | {dim: Value((dim,), "i64", np.arange(*self.ranges[dim])).along(dims) for dim in dims}
        known |= {name: self._named(name).along(dims).astype(np.int64) for name in values_of(op.at, dims, self.params)}
        extents = self._extents(dims)
        places = {
            dim: np.broadcast_to(evaluate(op.at[dim], known) if dim in op.at else known[dim], extents) for dim in shape
        }
        inside = np.ones(extents, bool)
        for dim, place in places.items():
            inside &= (place >= 0) & (place < self.sizes[dim])
        return places, inside

    def _known(self) -> dict[str, Any]:
        """What expressions of places may name beside values."""
        known: dict[str, Any] = {**self.params}
        for dim, size in self.sizes.items():
            known[f"size({dim})"] = size
            known[f"start({dim})"], known[f"end({dim})"] = self.ranges[dim] if self.bounded else (0, size)
        return known

    def _of_places(self, expression: Expression) -> Value:
        """What an expression of tiles and values is, along the dims of the values."""
        known = self._known() | {**self.sizes}
        values = {name: self._named(name) for name in expression.names() if name in self.names}
        dims = tuple(dict.fromkeys(dim for value in values.values() for dim in value.dims))
        known |= {name: value.along(dims).astype(np.int64) for name, value in values.items()}
        return Value(dims, "i64", np.broadcast_to(evaluate(expression, known), self._extents(dims)))

    def _ranked(self, op: ArgReduce | Topk) -> None:
        value, start = self._named(op.value), self.ranges[op.dim][0]
        init = None if op.init is None else tuple(map(self._named, op.init))
        if isinstance(op, ArgReduce):
            place, extreme = first_place(op, value, start, init)
            found = {op.name: place, op.extreme: extreme}
        else:
            at = start if op.places is None else self._named(op.places)
            numbers, places = first_numbers(op, value, at, self.sizes[op.k], init)
            found = {op.name: numbers, op.indices: places}
        self.names |= {name: one for name, one in found.items() if name is not None}

    def _joined(self, op: Joined) -> None:
        values = {name: self._named(value) for name, value in op.carry.items()}
        dims = next(iter(values.values())).dims
        kept = tuple(dim for dim in dims if dim != op.dim)
        arrays = {name: value.along((op.dim, *kept)) for name, value in values.items()}
        count = len(next(iter(arrays.values())))
        shape = self._extents(kept)
        so_far = {
            name: self._named(op.init[name]).along(kept)
            if op.init
            else np.full(shape, op.identity[name], held_as(values[name].dtype))
            for name in op.carry
        }
        around, running = self.names, {name: list[Array]() for name in op.carry}
        backwards = isinstance(op, ScanBy) and op.reverse
        for at in reversed(range(count)) if backwards else range(count):
            self.names = {**around}
            for name, value in op.carry.items():
                dtype = values[name].dtype
                self.names[name] = Value(kept, dtype, so_far[name])
                self.names[value] = Value(kept, dtype, arrays[name][at])
            self._body(op.combine)
            so_far = {name: np.broadcast_to(self.names[name].along(kept), shape) for name in op.carry}
            for name, array in so_far.items():
                running[name].append(array)
        self.names = around
        for name, parts in running.items():
            ordered = np.stack(parts[::-1] if backwards else parts)
            if isinstance(op, ScanBy):
                value = Value((op.dim, *kept), values[name].dtype, ordered)
                self.names[f"{op.name}.{name}"] = Value(dims, value.dtype, value.along(dims))
        ends = op.last if isinstance(op, ScanBy) else {name: name for name in op.carry}
        for name, end in ends.items():
            self.names[f"{op.name}.{end}"] = Value(kept, values[name].dtype, so_far[name])

    def _iterate(self, op: Iterate) -> None:
        """Step by step; without a tile in one, in which bounds leave nothing out."""
        around, size, tile = self.names, self.sizes[op.dim], self.tiles.get(op.dim)
        whole = self.ranges[op.dim]
        places = [0]
        if tile is not None:
            if op.step is not None and self._of_places(op.step).number() != 1:
                raise Unknown
            start, stop = (op.start, op.end) if self.bounded else (None, None)
            first = max(0, self._of_places(start).number()) if start is not None else 0
            end = min(size, self._of_places(stop).number()) if stop is not None else size
            places = list(range(first // tile * tile, end, tile))
        carried = {name: self._named(first) for name, first in op.carry.items()}
        for at in places:
            self.names = {**around, **carried}
            ended = self._of_places(op.until) if op.until is not None else None
            self.ranges[op.dim] = (at, at + (tile or size))
            self._body(op.body)
            carried = self._next(carried, [ended] if ended else [])
        self.ranges[op.dim] = whole
        self._leave(op, around, carried)

    def _repeat(self, op: Repeat) -> None:
        around, steps = self.names, self._of_places(op.steps)
        carried = {name: self._named(first) for name, first in op.carry.items()}
        most = int(steps.array.max(initial=0))
        if most > _MOST_STEPS:
            raise Unknown
        for step in range(most):
            self.names = {**around, **carried}
            ended = [Value(steps.dims, "bool", steps.array <= step)]
            ended += [self._of_places(op.until)] if op.until is not None else []
            if ended[-1].array.all():
                break
            if op.index is not None:
                self.names[op.index] = Value((), "i32", np.array(step))
            self._body(op.body)
            carried = self._next(carried, ended)
        self._leave(op, around, carried)

    def _next(self, before: Mapping[str, Value], ended: Sequence[Value]) -> dict[str, Value]:
        """The carried values behind a step, but what they were where the loop had ended."""
        carried = {name: self.names[name] for name in before}
        for over in ended:
            for name, value in carried.items():
                if not {*over.dims} <= {*value.dims}:
                    raise Unknown
                was, now = before[name].along(value.dims), value.array
                carried[name] = Value(value.dims, value.dtype, np.where(over.along(value.dims), was, now))
        return carried

    def _leave(self, op: Iterate | Repeat | Branch, around: dict[str, Value], carried: Mapping[str, Value]) -> None:
        made = {f"{op.name}.{name}": value for name, value in carried.items()}
        self.names = {**around, **made}
        self.ends |= made

    def _branch(self, op: Branch) -> None:
        around, taken = self.names, self._of_places(op.condition).number()
        self.names = {**around, **{name: self._named(first) for name, first in op.carry.items()}}
        self._body(op.body if taken else op.otherwise)
        self._leave(op, around, {name: self.names[name] for name in op.carry})

    def _write(self, op: Write) -> None:
        value, tensor, target = self._named(op.value), self.tensors[op.to], self.written[op.to]
        if not op.at:
            part = tuple(slice(*self.ranges[dim]) for dim in tensor.shape)
            array = value.along(tensor.shape)
            target[part] = as_type(_COMBINED[op.combine](target[part], array), tensor.dtype) if op.combine else array
            return
        at, inside = self._places(op, tensor.shape, value.dims)
        places = tuple(at[dim][inside] for dim in tensor.shape)
        array = value.array[inside]
        if op.combine:
            _COMBINED[op.combine].at(target, places, array)
            return
        target[places] = array
        if not np.array_equal(target[places], array, equal_nan=array.dtype == np.float64):
            raise Unknown  # elements that become one differ, and which of them stays is not fixed


def _taken(
    array: Array,
    shape: Sequence[str],
    at: Mapping[str, Array],
    inside: Array,
    starts: Mapping[str, int],
    held: Mapping[str, int],
) -> Array:
    """The elements at places, 0 where these are not ``inside``.

    Raises:
        Unknown: one of them is of another tile than that which is ``held``, from ``starts`` on.
    """
    places: list[Array] = []
    for dim in shape:
        place = np.where(inside, at[dim] - starts[dim], 0)
        if (place < 0).any() or (place >= held[dim]).any():
            raise Unknown
        places.append(place)
    return np.where(inside, array[tuple(places)], np.zeros((), array.dtype))


def first_difference(one: Array, other: Array) -> tuple[tuple[int, ...] | None, bool]:
    """Where two results differ at first by more than rounding, and whether any element of both is a number."""
    if one.dtype != np.float64:
        differs = np.argwhere(one != other)
        return (tuple(map(int, differs[0])) if len(differs) else None), one.size > 0
    known = ~(np.isnan(one) | np.isnan(other))
    with np.errstate(invalid="ignore"):
        apart = np.abs(one - other) > _ALLOWED * np.maximum(1, np.maximum(np.abs(one), np.abs(other)))
    apart |= (one != other) & (np.isinf(one) | np.isinf(other))
    differs = np.argwhere(known & apart)
    return (tuple(map(int, differs[0])) if len(differs) else None), bool(known.any())
