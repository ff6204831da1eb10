"""Thread kernel in, thread kernel out: what several vectors come to, each joined across its elements, is a vector."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import ClassVar

from wavespec.ir.kernel import Kernel, Op, Value, attribute_pairs
from wavespec.ir.nodes import replace
from wavespec.ir.rewriting import without_unused
from wavespec.ir.thread_ops import CAST, ELEMENTWISE, REDUCE, SLICE
from wavespec.lower.base import Pass, fresh_names
from wavespec.lower.thread_properties import is_of_lanes
from wavespec.targets.machine import Machine


class ReduceTogether(Pass):
    """Join several vectors across their elements together, and compute with all of the results at once.

    Before: each ``reduce`` of a vector makes one number, of which others are made one by one.
    After:  on machines whose lanes have vectors, those in a row that are alike are one ``reduce`` of all their elements
            with a vector of results, a power of two, at most a vector register of them; elementwise operations in a row
            on single numbers are one on these vectors, where each has the next of them.
    """

    name: ClassVar[str] = "reduce-together"
    requires = (is_of_lanes,)

    def applies_to(self, machine: Machine) -> bool:
        return machine.vector_bytes > 0 and not machine.concurrent_waves

    def apply(self, kernel: Kernel, machine: Machine) -> Kernel:
        if not any(op.is_(REDUCE) for op in kernel.walk()):
            return kernel
        together = _Together(fresh_names(kernel), machine.vector_bytes)
        body = together.block(kernel.body)
        return replace(kernel, body=without_unused(body, lambda op: op.is_(SLICE)))


class _Together:
    def __init__(self, fresh: Callable[[str], str], vector_bytes: int) -> None:
        self.fresh, self.vector_bytes = fresh, vector_bytes
        self.vectors = dict[tuple[str, ...], Value]()
        """By the names of numbers: the vector of all of them."""
        self.first = dict[str, int]()
        """How many there are in the vector that begins with a number."""

    def block(self, ops: Sequence[Op]) -> tuple[Op, ...]:
        made = list[Op]()
        for run in _runs(ops):
            if run[0].is_(REDUCE):
                made += self._reduced(run)
            elif run[0].is_(ELEMENTWISE, CAST):
                made += self._computed(run)
            else:
                made += (
                    replace(op, region=replace(op.region, ops=self.block(op.region.ops))) if op.region else op
                    for op in run
                )
        return tuple(made)

    def _reduced(self, run: Sequence[Op]) -> Iterator[Op]:
        kind, start = run[0].operands[0].vector, 0
        width = max(1, self.vector_bytes * 8 // kind.dtype.bits)
        while start < len(run):
            count = min(width, 1 << (len(run) - start).bit_length() - 1)
            group = run[start : start + count]
            start += count
            if count == 1 or kind.elements % width or kind.dtype.bits < 8:
                yield from group
                continue
            whole = Value(self.fresh("rows"), replace(kind, elements=kind.elements * count))
            yield Op("pack", tuple(op.operands[0] for op in group), (whole,), span=group[0].span, node=group[0].node)
            yield from self._vector(group, (whole,))

    def _computed(self, run: Sequence[Op]) -> Iterator[Op]:
        start = 0
        while start < len(run):
            sizes = [self.first.get(value.name, 1) for value in run[start].operands]
            group = run[start : start + max(sizes, default=1)]
            start += len(group)
            columns = [self._column(values) for values in zip(*(op.operands for op in group), strict=True)]
            known = [column for column in columns if column is not None]
            if len(group) == 1 or len(known) < len(columns):
                yield from group
                continue
            operands = list[Value]()
            for column in known:
                if column.vector.elements == 1:
                    column, single = Value(self.fresh("spread"), replace(column.vector, elements=len(group))), column
                    yield Op("broadcast", (single,), (column,), span=group[0].span, node=group[0].node)
                operands.append(column)
            yield from self._vector(group, tuple(operands))

    def _column(self, values: Sequence[Value]) -> Value | None:
        """The vector of these numbers, or the one number that they all are."""
        names = tuple(value.name for value in values)
        return self.vectors.get(names) or (values[0] if len(set(names)) == 1 else None)

    def _vector(self, group: Sequence[Op], operands: tuple[Value, ...]) -> Iterator[Op]:
        """One operation for a group of alike ones, and a part of its result for the result of each."""
        first, names = group[0], tuple(op.result.name for op in group)
        result = Value(self.fresh(names[0]), replace(first.result.vector, elements=len(group)))
        self.vectors[names], self.first[names[0]] = result, len(group)
        yield replace(first, operands=operands, results=(result,))
        for at, op in enumerate(group):
            part = attribute_pairs({"start": at, "size": 1})
            yield Op("slice", (result,), op.results, part, span=op.span, node=op.node)


def _runs(ops: Sequence[Op]) -> Iterator[list[Op]]:
    """Neighbours that differ in their values alone and do not use each other's; others one by one."""
    run, made = list[Op](), set[Value]()
    for op in ops:
        if run and not (_goes_on(run[0], op) and made.isdisjoint(op.operands)):
            yield run
            run, made = [], set[Value]()
        run.append(op)
        made.update(op.results)
    if run:
        yield run


def _goes_on(first: Op, op: Op) -> bool:
    if not op.is_(REDUCE, ELEMENTWISE, CAST) or op.name != first.name or op.result.vector.elements != 1:
        return False
    types = [[value.type for value in (*one.operands, *one.results)] for one in (first, op)]
    return types[0] == types[1] and op.attributes == first.attributes
