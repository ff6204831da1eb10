"""A copy by boxes goes in; which rows it may copy again in place of rows that are not there comes out.

A box fills rows beyond the last one of a tensor with zeros, which takes several times as long as to copy as many.
"""

from __future__ import annotations

from wavespec.ir.kernel import Kernel, Memory, Op
from wavespec.ir.tile_ops import (
    CAST,
    CLUSTER_SUM,
    COPY,
    ELEMENTWISE,
    ITERATE,
    MMA,
    READ,
    REGISTER,
    SHARED_SUM,
    SPREAD_SUM,
    WAVE_SUM,
    WRITE,
)

_ROWS = 64
"""Of a box that is small enough: zeros for as many take no longer than a step."""
_GROUP = 8
"""Rows of a swizzle, which a box has all of."""
_SUMS = WAVE_SUM | SPREAD_SUM | CLUSTER_SUM | SHARED_SUM
_BY_ITSELF = READ | WRITE | COPY | ELEMENTWISE | CAST | REGISTER | ITERATE | MMA | _SUMS
"""Operations in which a row of a result is made of that row of what they take."""


def rows_again(copy: Op, kernel: Kernel, shared: Memory) -> str:
    """The dim along which rows of a staged tile may be any where the tensor has none, or nothing: what they make is
    never stored, and no other row is made of it."""
    row, split = shared.dims[0], {one.dim: one for one in kernel.distribution.workgroup}
    if row not in split or copy.get("at") or kernel.distribution.cluster > 1 or parts_of_rows(split[row].tile) == 1:
        return ""
    if kernel.all_sizes[row].divisor % split[row].tile == 0 or shared.shape[0].value != split[row].tile:
        return ""
    return row if all(op.is_(_BY_ITSELF) and op.get("k") != row for op in kernel.walk() if _has(op, row)) else ""


def parts_of_rows(height: int) -> int:
    """Into how many boxes the rows of a tile go, one of which is copied where not all of its rows are beyond."""
    return 2 if height > _ROWS and height % (2 * _GROUP) == 0 else 1


def _has(op: Op, dim: str) -> bool:
    return any(dim in value.tile.dims for value in (*op.results, *op.operands) if hasattr(value.type, "dims"))
