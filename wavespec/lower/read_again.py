"""A read of an operand of a product goes in; one that reads the last row again beyond the edge, where nobody sees what
is made of it, comes out."""

from __future__ import annotations

from wavespec.ir.kernel import Memory, Op
from wavespec.ops.index_map import dims_of


def reading_again(op: Op, source: Memory, k: str) -> Op:
    """``k``: the dim that is summed over, along which what lies beyond the edge has to be zero."""
    dims = dims_of(op) if op.get("at") else source.dims
    return op.with_(clamped=tuple(dim for dim in dims if dim != k))
