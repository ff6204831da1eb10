"""Tile kernel in, tile kernel out: what a tensor has once along a dim is read once, not for each place along it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from wavespec.ir.expr import const
from wavespec.ir.kernel import Kernel, Op, TileType, Value, VectorType, retype
from wavespec.ir.nodes import replace
from wavespec.ir.tile_ops import CAST, ELEMENTWISE, READ
from wavespec.lower.base import Pass
from wavespec.lower.tile_properties import is_of_tiles
from wavespec.targets.machine import Machine


class ReadOnce(Pass):
    """Leave out of what is read the dims along which the elements of a tensor are one, as ``stride(x, M) == 0`` says.

    Before: ``read x`` is a tile [M, N], whatever the strides of x are.
    After:  where the stride along M is 0, it is a tile [N] at the first M of the tile, and so is what follows from it
            alone, element by element; what meets values with M has M.
    Cases:  what is staged stays, since tiles of shared memory have two dims; so does what is read at places of a
            mapping, and what a product, a reduction, a loop or a write takes.
    """

    name: ClassVar[str] = "read-once"
    requires = (is_of_tiles,)

    def apply(self, kernel: Kernel, machine: Machine) -> Kernel:
        del machine
        ops = list(kernel.walk())
        found = {op.result.name: dims for op in ops if op.is_(READ) and (dims := _still(kernel, op))}
        while found:
            left = _followed(ops, found)
            taken = {name for op in ops for name in _taken_whole(op) if name in left}
            if not taken:
                return replace(kernel, body=tuple(retype(op, _types(ops, left)) for op in kernel.body))
            found = {name: dims for name, dims in found.items() if taken.isdisjoint(_followed(ops, {name: dims}))}
        return kernel


def _still(kernel: Kernel, read: Op) -> frozenset[str]:
    """Dims of a tile along which all of its elements are one."""
    memory = kernel.memory(read["memory"])
    if memory.staged or not memory.is_strided or read.get("at"):
        return frozenset()
    still = {dim for dim, stride in zip(memory.dims, memory.strides, strict=True) if stride == const(0)}
    return frozenset(still.intersection(read.result.tile.dims))


def _followed(ops: list[Op], found: Mapping[str, frozenset[str]]) -> dict[str, frozenset[str]]:
    """The dims that these values, and what follows from them element by element, need not have."""
    left = dict(found)
    for op in ops:
        if op.is_(CAST, ELEMENTWISE) and any(value.name in left for value in op.operands):
            needed = {dim for value in op.operands for dim in _dims(value, left)}
            if missing := frozenset(op.result.tile.dims) - needed:
                left[op.result.name] = missing
    return left


def _dims(value: Value, left: Mapping[str, frozenset[str]]) -> Iterator[str]:
    return (dim for dim in value.tile.dims if dim not in left.get(value.name, ()))


def _taken_whole(op: Op) -> Iterator[str]:
    """The values that an operation, or what its region hands on, takes with all of their dims."""
    if not op.is_(CAST, ELEMENTWISE):
        yield from (value.name for value in op.operands)
    yield from (value.name for value in (op.region.yields if op.region else ()))


def _types(ops: list[Op], left: Mapping[str, frozenset[str]]) -> dict[str, TileType | VectorType]:
    results = (value for op in ops for value in op.results)
    return {value.name: value.tile.without(left[value.name]) for value in results if value.name in left}
