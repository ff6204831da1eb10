"""A tile kernel goes in; which operands are parts of others that are staged anyway, such as values that are the first
columns of keys, comes out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from wavespec.ir.expr import Expr
from wavespec.ir.kernel import Kernel, Op
from wavespec.ir.tile_ops import MMA, READ
from wavespec.lower.choose_instructions import instruction_of
from wavespec.ops.index_map import index_of
from wavespec.targets.machine import Machine

_SLAB_BYTES = 128
"""Of a row that lie side by side in the arrangement that the matrix unit reads."""


@dataclass(frozen=True, slots=True)
class Within:
    """``along``: the dim of an operand that goes along ``dim`` of the tile of another ``read``, from ``start`` on."""

    read: Op
    dim: str
    along: str
    start: int


def within_others(kernel: Kernel, machine: Machine) -> dict[str, Within]:
    """Of operands that the matrix unit reads itself: where the tile of a read in the same block holds all of them."""
    operands = {
        value.name
        for op in kernel.walk()
        if op.is_(MMA) and (row := instruction_of(op, machine)).reads_shared
        for value, fragment in zip(op.operands, (row.a, row.b), strict=False)
        if fragment.dtype == value.tile.dtype and not fragment.bias
    }
    return dict(_in_block(kernel, kernel.body, operands))


def _in_block(kernel: Kernel, ops: Sequence[Op], operands: set[str]) -> Iterator[tuple[str, Within]]:
    reads = [op for op in ops if op.is_(READ) and op.result.name in operands and not op.get("direct")]
    for read in reads:
        others = (_within(kernel, read, other) for other in reads if other["memory"] == read["memory"])
        if found := next(filter(None, others), None):
            yield read.result.name, found
    for op in ops:
        if op.region:
            yield from _in_block(kernel, op.region.ops, operands)


def _within(kernel: Kernel, read: Op, other: Op) -> Within | None:
    """Where a read has a part of the columns of the other, and the same rows."""
    memory = kernel.memory(read["memory"])
    own, places = _places(kernel, read), _places(kernel, other)
    dim = memory.contiguous_dim
    along = [one for one in read.result.tile.dims if one not in other.result.tile.dims]
    if places.pop(dim) is not index_of(dim) or len(along) != 1 or dim not in other.result.tile.dims:
        return None
    start = own.pop(dim) - index_of(along[0]) + dict(read["origin"])[along[0]] - dict(other["origin"])[dim]
    slab = _SLAB_BYTES // memory.dtype.bytes
    if own != places or read.operands != other.operands or not start.is_const or start.value % slab:
        return None
    if _rows(read, along[0]) != _rows(other, dim) or other.result.tile.extent(dim) % slab:
        return None
    inside = 0 <= start.value <= other.result.tile.extent(dim) - read.result.tile.extent(along[0])
    return Within(other, dim, along[0], start.value) if memory.staged and inside else None


def _places(kernel: Kernel, read: Op) -> dict[str, Expr]:
    """Of each dim of the tensor."""
    return dict(read.get("at") or ((dim, index_of(dim)) for dim in kernel.memory(read["memory"]).dims))


def _rows(read: Op, column: str) -> dict[str, tuple[int, Expr]]:
    """Extent and origin of the tile along each dim but one."""
    tile, origin = read.result.tile, dict(read["origin"])
    return {dim: (tile.extent(dim), origin[dim]) for dim in tile.dims if dim != column}
