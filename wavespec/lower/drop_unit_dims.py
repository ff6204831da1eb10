"""Tile kernel in, tile kernel out: dims of which a workgroup has one element are coordinates, not dims of tiles."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from wavespec.ir.expr import const
from wavespec.ir.kernel import Kernel, Op, TileType, VectorType, retype
from wavespec.ir.nodes import replace
from wavespec.ir.tile_ops import INDEX, MMA, SIZE, TOPK
from wavespec.lower.base import Pass
from wavespec.lower.tile_properties import products_have_three_operands, unit_dims_are_dropped
from wavespec.targets.machine import Machine


class DropUnitDims(Pass):
    """Leave out of every tile the dims that the grid counts one by one.

    Before: ``c[B, M, N]`` with ``{workgroup: B, tile: 1}`` is a tile of three dims.
    After:  it is a tile [M, N]; `AssignTiles` still gives reads and writes the place of their tensor along B.  Dims
            whose size is 1 are left out as well.  Those that a reduction or a loop is over stay, and so does what makes
            operands of an mma matrices.
    """

    name: ClassVar[str] = "drop-unit-dims"
    requires = (products_have_three_operands,)
    ensures = (unit_dims_are_dropped,)

    def apply(self, kernel: Kernel, machine: Machine) -> Kernel:
        plan = kernel.distribution
        needed = {split.dim for split in plan.loops} | {dim for op in kernel.walk() for dim in _needed(op)}
        single = {dim for dim, size in kernel.all_sizes.items() if size == const(1)}
        units = ({split.dim for split in plan.workgroup if split.tile == 1} | single) - needed
        for op in kernel.walk():
            units -= set(_of_matrices(op, units))
        types: dict[str, TileType | VectorType] = {
            value.name: value.tile.without(units)
            for op in kernel.walk()
            for value in (*op.results, *(op.region.arguments if op.region else ()))
        }
        return replace(kernel, body=tuple(retype(op, types) for op in kernel.body))


def _needed(op: Op) -> Iterator[str]:
    """Dims that an operation is about; an index, and a size, are numbers as well."""
    if not op.is_(INDEX, SIZE) and "dim" in dict(op.attributes):
        yield op["dim"]
    if op.is_(TOPK):
        yield op["k"]


def _of_matrices(op: Op, units: set[str]) -> Iterator[str]:
    """Dims without which the operands of a product would have fewer than two dims."""
    if not op.is_(MMA):
        return
    lhs, rhs, acc = (value.tile.dims for value in op.operands)
    yield from (dim for dim in lhs if dim in rhs and dim not in acc)
    for own, other in ((lhs, rhs), (rhs, lhs)):
        free = [dim for dim in own if dim not in other]
        if free and all(dim in units for dim in free):
            yield free[-1]
