"""A graph and which of its ops nobody misses go in; the graph without those of them that nothing uses comes out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from wavespec.schema.made_kernels import words_of
from wavespec.schema.ops import AnyOp, Iterate, Op, Structured


def without_unused(graph: tuple[AnyOp, ...], may_go: Callable[[AnyOp], bool]) -> tuple[AnyOp, ...]:
    """``may_go``: of an op that has a name, which is kept where something uses that."""
    while True:
        used = {word for op in graph for word in _words(op)}
        left = _used(graph, used, may_go)
        if left == graph:
            return graph
        graph = left


def _words(op: Op) -> Iterator[str]:
    yield from words_of(op)
    if isinstance(op, Iterate):
        yield from op.carry  # which a step makes anew


def _used(ops: Sequence[AnyOp], used: set[str], may_go: Callable[[AnyOp], bool]) -> tuple[AnyOp, ...]:
    kept = (op for op in ops if getattr(op, "name", "") in used or not may_go(op))
    return tuple(
        op.with_bodies(lambda body: _used(body, used, may_go)) if isinstance(op, Structured) else op for op in kept
    )
