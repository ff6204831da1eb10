"""A kernel goes in; in which loops, in which branches and beside which products its reads stand comes out."""

from __future__ import annotations

from collections.abc import Iterator

from wavespec.ir.kernel import Kernel, Op
from wavespec.ir.tile_ops import ITERATE, MMA, READ


def loops_of_reads(kernel: Kernel) -> dict[str, int]:
    """Which loop each value is read in, by number: waves that only copy run ahead into the next loop, whose buffers are
    others."""
    loops = enumerate(op for op in kernel.walk() if op.is_(ITERATE))
    return {op.result.name: number for number, loop in loops for op in loop.body.ops if op.is_(READ)}


def reads_in_branches(kernel: Kernel) -> set[str]:
    """Values that are read where a condition holds, but those of loops there."""
    branches = (op for op in kernel.walk() if op.is_(ITERATE) and op.get("once"))
    return {op.result.name for branch in branches for op in branch.body.ops if op.is_(READ)}


def read_beside_products(ops: tuple[Op, ...]) -> Iterator[str]:
    """Names of what is read in the block of the product that uses it."""
    read = {op.result.name for op in ops if op.is_(READ)}
    for op in ops:
        if op.is_(MMA):
            yield from (value.name for value in op.operands if value.name in read)
        if op.region:
            yield from read_beside_products(op.region.ops)
