"""A checked spec in, the outputs out of which a call may leave elements unwritten."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from wavespec.schema.models import KernelSpec
from wavespec.schema.ops import AnyOp, Branch, Iterate, Write
from wavespec.schema.ops.mapping import values_of
from wavespec.schema.ops.structured import Structured


def partly_written(spec: KernelSpec) -> frozenset[str]:
    """Outputs with elements that are written or not as values say: they start as zeros.

    Places of a write depend on values, or it stands in a branch, or in a loop that leaves out steps.  Of places that
    follow from sizes alone it is known beforehand whether they are all: every element has to be written then.
    """
    known = (*spec.dims, *spec.params)
    return frozenset(
        write.to
        for write, is_sure in _writes(spec.graph, is_sure=True)
        if spec.tensors[write.to].role == "output" and not (is_sure and not values_of(write.at, known, {}))
    )


def _writes(statements: Iterable[AnyOp], *, is_sure: bool) -> Iterator[tuple[Write, bool]]:
    """Every write, and whether all of its steps are done in every call."""
    for statement in statements:
        if isinstance(statement, Write):
            yield statement, is_sure
        if isinstance(statement, Structured):
            whole = is_sure and not (isinstance(statement, Branch) or _leaves_out(statement))
            for field in statement.bodies:
                yield from _writes(getattr(statement, field), is_sure=whole)


def _leaves_out(loop: Structured) -> bool:
    return isinstance(loop, Iterate) and any((loop.start, loop.end, loop.step, loop.until))
