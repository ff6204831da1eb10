"""Tile kernel in, tile kernel out: products of several matrices are several products."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from math import prod
from typing import Any, ClassVar

from wavespec.diagnostics import WavespecError, Where
from wavespec.ir.dtype import computed
from wavespec.ir.kernel import Kernel, Op, Region, TileType, Value, attribute_pairs
from wavespec.ir.nodes import replace
from wavespec.ir.rewriting import substituted
from wavespec.ir.tile_ops import ACROSS, BIND, INDEX, MMA, RANDOM, READ, REDUCE, TAKE, TOPK, WRITE
from wavespec.lower.assign_tiles import NotUniform
from wavespec.lower.base import Pass, fresh_names, written_name
from wavespec.lower.tile_properties import products_have_three_operands
from wavespec.lower.untiled_dims import reduction_split
from wavespec.ops.index_map import index_of
from wavespec.targets.machine import Machine

_MOST = 32
"""Products that one is written out as; the code of more is no longer small."""

Place = Mapping[str, int]
"""The number of an element in its tile along each dim that is unrolled."""


class BatchSplit(WavespecError, code="batch-split"):
    def __init__(self, where: Where, dim: str) -> None:
        super().__init__(
            where,
            f"Waves share rows and columns of a product; '{dim}' counts matrices of it.",
            hints=[f"Leave out 'wave: {dim}', or give workgroups one matrix each: {{workgroup: {dim}, tile: 1, ...}}."],
        )


class BatchesNotPossible(WavespecError, code="batches-not-possible"):
    """``what`` is done to the value ``name`` along a dim that counts matrices of a product."""

    def __init__(self, where: Where, name: str, what: str, dim: str, hint: str = "") -> None:
        super().__init__(
            where,
            f"'{name}' {what} along '{dim}', which counts matrices of a product.",
            hints=[hint or f"Give '{dim}' a tile of 1, or split the kernel in two."],
        )


class TooManyBatches(WavespecError, code="too-many-batches"):
    def __init__(self, where: Where, tiles: Mapping[str, int]) -> None:
        dims = " · ".join(f"{dim} ({tile})" for dim, tile in tiles.items())
        super().__init__(
            where,
            f"A tile of this product has as many matrices as {dims}; more than {_MOST} are not written out.",
            hints=["Lower their tiles."],
        )


class UnrollBatches(Pass):
    """Multiply matrix by matrix where operands of a product have more than two dims.

    Before: an operand of an mma has one dim that is summed over, and others that are not.
    After:  it has one of each: for every element of a tile along the others there are operations of their own, of all
            values that have such a dim.  Reads and writes have the place in their mapping, so that what is beyond an
            edge reads as 0 and is not written.
    Errors: ``batch-split`` at the wave's tile; ``batches-not-possible``, ``not-uniform``, ``reduction-split``,
            ``too-many-batches`` at the operation.
    """

    name: ClassVar[str] = "unroll-batches"
    requires = (products_have_three_operands,)

    def apply(self, kernel: Kernel, machine: Machine) -> Kernel:
        tiles = _unrolled(kernel)
        if not tiles:
            return kernel
        for split in kernel.distribution.waves:
            if split.dim in tiles:
                raise BatchSplit(split.span, split.dim)
        body = _Unrolling(kernel, tiles).ops(kernel.body)
        mapped = (index_of(dim) for op in body for inner in op.walk() if inner.get("at") for dim in inner["over"])
        return replace(kernel.with_symbols(*mapped), body=body)


def _unrolled(kernel: Kernel) -> dict[str, int]:
    """The dims beyond those of matrices, and how many elements a tile has along each."""
    tiles = _tiles(kernel)
    found: dict[str, int] = {}
    for op in kernel.walk():
        if not op.is_(MMA):
            continue
        lhs, rhs, acc = (value.tile.dims for value in op.operands)
        several = [dim for dim in acc if dim in lhs and dim in rhs]
        for own, other in ((lhs, rhs), (rhs, lhs)):
            free = [dim for dim in own if dim not in other]
            inner = max(reversed(free), key=lambda dim: tiles.get(dim, 0), default="")
            several += [dim for dim in free if dim != inner]
        counts = {dim: tiles[dim] for dim in several if dim in tiles}
        if len(counts) < len(several):
            continue
        if prod(counts.values()) > _MOST:
            raise TooManyBatches(op.span, counts)
        found |= counts
    return found


def _tiles(kernel: Kernel) -> dict[str, int]:
    """Elements of a tile along each dim of which that is known: all of a dim where it never has more."""
    plan, sizes = kernel.distribution, kernel.all_sizes
    whole = {dim: size.value for dim, size in sizes.items() if size.is_const}
    tiles = {split.dim: split.tile for split in (*plan.workgroup, *plan.loops)}
    most = {dim: size.high for dim, size in sizes.items()}
    return whole | {dim: min(tile, most.get(dim) or tile) for dim, tile in tiles.items()}


class _Unrolling:
    def __init__(self, kernel: Kernel, tiles: Mapping[str, int]) -> None:
        self.kernel, self.tiles = kernel, tiles
        self.fresh = fresh_names(kernel)
        self.values: dict[str, dict[tuple[int, ...], Value]] = {}

    def ops(self, ops: Sequence[Op]) -> tuple[Op, ...]:
        return tuple(made for op in ops for made in self._op(op))

    def _op(self, op: Op) -> Iterator[Op]:
        if op.region is not None:
            yield self._loop(op)
            return
        dims = self._dims(*op.operands, *op.results)
        if not dims:
            yield op
            return
        self._check(op, dims)
        if op.is_(REDUCE) and op["dim"] in dims:
            make = self._reduced
        elif op.is_(INDEX):
            make = self._index
        else:
            make = self._alike
        free = [dim for dim in dims if not op.results or dim in op.result.tile.dims]
        for place in self._places(free):
            yield from make(op, place)

    def _check(self, op: Op, dims: Sequence[str]) -> None:
        """Raise what is not said of one element of a tile."""
        name = written_name(self.kernel, (*op.results, *op.operands)[0])
        if op.is_(BIND):
            raise NotUniform(op.span, op.operands[0])
        if op.is_(RANDOM):
            raise BatchesNotPossible(op.span, name, "has random numbers", dims[0])
        if op.is_(TOPK) and op["k"] in dims:
            raise BatchesNotPossible(op.span, name, "has what is found", op["k"])
        if op.is_(ACROSS) and op["dim"] in dims:
            if op["dim"] in [split.dim for split in self.kernel.distribution.workgroup]:
                raise reduction_split(self.kernel, op)
            if not op.is_(REDUCE):
                raise BatchesNotPossible(op.span, name, "joins elements", op["dim"])
            if self.kernel.size(op["dim"]).divisor % (tile := self.tiles[op["dim"]]):
                hint = f"Promise {{{op['dim']}: {{multiple_of: {tile}}}}} in 'dims'."
                raise BatchesNotPossible(op.span, name, "joins elements of tiles that may be partial", op["dim"], hint)
        if op.is_(TAKE):
            for dim in (dim for dim, place in op["at"] if dim in dims and place is not index_of(dim)):
                raise BatchesNotPossible(op.span, name, "takes elements", dim)
        if op.is_(MMA):
            lhs, rhs = ({*value.tile.dims} - self.tiles.keys() for value in op.operands[:2])
            if not (lhs & rhs and lhs - rhs and rhs - lhs):
                raise BatchesNotPossible(op.span, name, "is a product", dims[0])

    def _alike(self, op: Op, place: Place) -> Iterator[Op]:
        """The operation for one element along each unrolled dim."""
        operands = tuple(self._at(value, place) for value in op.operands)
        results = tuple(self._new(value, place) for value in op.results)
        yield replace(op, operands=operands, results=results, attributes=self._moved(op, place))

    def _moved(self, op: Op, place: Place) -> tuple[tuple[str, object], ...]:
        """The attributes of an operation that is about the element at ``place`` of what was a tile."""
        if op.is_(READ, WRITE) and not op.get("at"):
            dims = self.kernel.memory(op["memory"]).dims
            op = op.with_(at=tuple((dim, index_of(dim)) for dim in dims), over=dims)
        elif op.is_(TAKE):
            op = op.with_(at=tuple((dim, where) for dim, where in op["at"] if dim not in place))
        elif not op.get("at"):
            return op.attributes
        further = {index_of(dim).args[0]: index_of(dim) + number for dim, number in place.items()}
        return substituted(op, further).attributes

    def _index(self, op: Op, place: Place) -> Iterator[Op]:
        first, number = (Value(self.fresh(op.result.name), op.result.tile.without(self.tiles)) for _ in range(2))
        yield replace(op, results=(first,))
        yield self._like(op, "register", (), number, value=place[op["dim"]])
        yield self._like(op, "elementwise", (first, number), self._new(op.result, place), function="add")

    def _reduced(self, op: Op, place: Place) -> Iterator[Op]:
        """What the elements of a tile give, joined one after the other; small floats in f32."""
        (value, *start), dim, function = op.operands, op["dim"], op["function"]
        tile = replace(op.result.tile.without(self.tiles), dtype=computed(value.tile.dtype))

        def new() -> Value:
            return Value(self.fresh(op.result.name), tile)

        parts = [self._at(value, {**place, dim: number}) for number in range(self.tiles[dim])]
        yield (total := self._like(op, "cast", (parts[0],), new()))
        for part in parts[1:]:
            yield (wide := self._like(op, "cast", (part,), new()))
            yield (total := self._like(op, "elementwise", (total.result, wide.result), new(), function=function))
        if op["divided"]:
            count = Value(self.fresh(op.result.name), TileType((), (), tile.dtype))
            yield self._like(op, "size", (), count, extent=self.kernel.size(dim))
            yield (total := self._like(op, "elementwise", (total.result, count), new(), function="div"))
        for first in start:
            yield (wide := self._like(op, "cast", (self._at(first, place),), new()))
            yield (total := self._like(op, "elementwise", (wide.result, total.result), new(), function=function))
        yield self._like(op, "cast", (total.result,), self._new(op.result, place))

    def _loop(self, op: Op) -> Op:
        region = op.body
        arguments = self._all(region.arguments, self._new)
        ops = self.ops(region.ops)
        body = Region(arguments, ops, self._all(region.yields, self._at))
        return replace(
            op, operands=self._all(op.operands, self._at), results=self._all(op.results, self._new), region=body
        )

    def _all(self, values: Sequence[Value], what: Callable[[Value, Place], Value]) -> tuple[Value, ...]:
        return tuple(what(value, place) for value in values for place in self._places(self._dims(value)))

    def _like(self, op: Op, name: str, operands: tuple[Value, ...], result: Value, **attributes: Any) -> Op:
        return Op(name, operands, (result,), attribute_pairs(attributes), span=op.span, node=op.node)

    def _dims(self, *values: Value) -> list[str]:
        """The unrolled dims of values."""
        return [dim for dim in self.tiles if any(dim in value.tile.dims for value in values)]

    def _places(self, dims: Sequence[str]) -> Iterator[Place]:
        for numbers in product(*(range(self.tiles[dim]) for dim in dims)):
            yield dict(zip(dims, numbers, strict=True))

    def _new(self, value: Value, place: Place) -> Value:
        """A value for the element of ``value`` at a place."""
        made = value
        if dims := self._dims(value):
            made = Value(self.fresh(value.name), value.tile.without(self.tiles))
            self.values.setdefault(value.name, {})[tuple(place[dim] for dim in dims)] = made
        return made

    def _at(self, value: Value, place: Place) -> Value:
        dims = self._dims(value)
        return self.values[value.name][tuple(place[dim] for dim in dims)] if dims else value
