"""The plain graph of a spec goes in; the dims along which its ops join elements, or which they make, come out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from wavespec.schema.ops import ArgReduce, Joined, Mma, Op, Reduce, Scan, Take, Topk, ValueType, walk


def joined_dims(ops: Sequence[Op], types: Mapping[str, ValueType]) -> Iterator[str]:
    """In the order of the ops, some of them several times."""
    for op in walk(ops):
        if isinstance(op, Reduce):
            yield from op.along
        elif isinstance(op, Scan | ArgReduce | Joined):
            yield op.dim
        elif isinstance(op, Topk):
            yield from (op.dim, op.k)
        elif isinstance(op, Take):
            yield from op.at
        elif isinstance(op, Mma):
            yield from sorted(summed_dims(op, types))


def summed_dims(op: Mma, types: Mapping[str, ValueType]) -> set[str]:
    """What a product sums over."""
    return {*types[op.lhs].dims} & {*types[op.rhs].dims} - {*types[op.acc].dims}
