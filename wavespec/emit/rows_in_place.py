"""Loads that walk along rows of a tensor, one element of each in a step, go in; one address for each row, chosen around
the loop, comes out.

Whether a row is there does not change on the way, so that the loop has neither a check nor a mask: it reads the row, or
zeros in its place.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from wavespec.emit.element_runs import ElementRun, run_of
from wavespec.emit.indices import Indices
from wavespec.ir.expr import Expr, const, total
from wavespec.ir.kernel import Op
from wavespec.ir.thread import decisive

WORD_BYTES = 4
"""Of an element, or a group of them along k, which a product spreads over a vector."""


class Rows(NamedTuple):
    """``starts``: where rows begin, and what they are checked for, as loads of their first elements; ``run``: these as
    one, where vectors compute them; ``along``: bytes from there, the same for all of them; ``depth``: of the block that
    the addresses belong to."""

    starts: Sequence[Op]
    run: ElementRun | None
    along: Expr
    depth: int


def rows_of(ops: Sequence[Op], bytes_: int, most: int, indices: Indices) -> Rows | None:
    """What loads of one size have in common, or None where they are no rows of at most so many bytes."""
    first, depth = ops[0], max(indices.depth_of(op["offset"].symbols) for op in ops)
    size = first.result.vector.elements * bytes_
    if depth == 0 or any(op["memory"] != first["memory"] or op.result.vector != first.result.vector for op in ops):
        return None
    starts, ways = zip(*(_start_and_way(op["offset"], depth, indices) for op in ops), strict=True)
    along = ways[0] * bytes_
    if any(way is not ways[0] for way in ways) or along.low is None or along.low < 0 or along.high is None:
        return None
    masks = [decisive(op["mask"]) for op in ops]
    symbols = frozenset[str]().union(*(side.symbols for mask in masks for pair in mask for side in pair))
    around = max(indices.depth_of(symbols), *(indices.depth_of(start.symbols) for start in starts))
    if around >= depth or along.high + size > most:
        return None
    lines = [op.with_(offset=start, mask=mask) for op, start, mask in zip(ops, starts, masks, strict=True)]
    return Rows(lines, run_of(lines, bytes_, indices, of_rows=True) if size <= WORD_BYTES else None, along, around)


def _start_and_way(offset: Expr, depth: int, indices: Indices) -> tuple[Expr, Expr]:
    """What the innermost loop does not change of a place, and the rest."""
    parts = indices.distributed(offset)
    moving = [part for part in parts if not part.is_const and indices.depth_of(part.symbols) == depth]
    way = total((part, 1) for part in moving)
    return offset - way if moving else offset, way if moving else const(0)
