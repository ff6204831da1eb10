"""Thread kernel in, thread kernel out: what is computed around the loops is computed when it is needed."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate, compress, groupby
from typing import ClassVar

from wavespec.ir.kernel import Kernel, Op
from wavespec.ir.thread_ops import ATOMIC, BIND, LOAD, PURE, STORE
from wavespec.lower.base import Pass
from wavespec.lower.thread_properties import is_of_lanes, symbols_are_in_scope, values_are_used
from wavespec.targets.machine import Machine

_LOADS_AHEAD = 16
"""Loads of an epilogue that are under way at a time: enough to fill the memory's latency, few beside the sums."""
_BYTES_AHEAD = 96
"""Of a lane that such loads may bring in."""


class SinkArithmetic(Pass):
    """Move arithmetic, and loads of inputs, down to their first use.

    Before: an epilogue as lowered, each operation for the whole tile before the next one.
    After:  around the loops, operations that only make values stand in front of what needs them, piece by piece, so
            that the registers of sums are free when the results are there; what nothing needs is gone.  Stores in a
            row stay so.  Loads stand some way ahead of their use; on machines that reorder them they stay.
            Where workgroups share the registers of a processor (``resident``), stores that need loads do not stay in a
            row, and loads that are more than stand ahead do not wait in registers until lanes have met.
    """

    name: ClassVar[str] = "sink-arithmetic"
    requires = (is_of_lanes, symbols_are_in_scope)
    ensures = (values_are_used,)

    def apply(self, kernel: Kernel, machine: Machine) -> Kernel:
        read = {memory.name for memory in kernel.memories if memory.role == "input"}
        inputs = set[str]() if machine.out_of_order else read
        # What depends on a symbol stays behind the operation that says what it stands for.
        bound = frozenset(op["symbol"] for op in kernel.body if op.is_(BIND))
        waiting: dict[str, Op] = {}
        fixed: list[Op] = []
        for op in kernel.body:
            free = bound.isdisjoint(op.symbols)
            if free and (op.is_(PURE) or (op.is_(LOAD) and op["memory"] in inputs)):
                waiting[op.result.name] = op
            else:
                fixed.append(op)
        result: list[Op] = []
        is_crowded = kernel.distribution.resident > 1
        for are_stores, group_of_them in groupby(fixed, lambda op: op.is_(STORE, ATOMIC) and not op.results):
            ops = list(group_of_them)
            together = are_stores and not (is_crowded and _need_loads(ops, waiting))
            for group in [ops] if together else [[op] for op in ops]:
                for name in (name for op in group for name in _needed(op)):
                    result += _with_operands(name, waiting)
                result += group
        shared = {memory.name for memory in kernel.memories if memory.space == "shared"}
        parts = _parts(result, inputs, shared) if is_crowded else [result]
        return replace(kernel, body=tuple(op for part in parts for op in _ahead(part, inputs, bound)))


def _need_loads(stores: Sequence[Op], waiting: Mapping[str, Op]) -> bool:
    """Whether several of the stores each need loads that wait."""
    left = dict(waiting)
    needed = ([made for name in _needed(op) for made in _with_operands(name, left)] for op in stores)
    return sum(any(made.is_(LOAD) for made in every) for every in needed) > 1


def _parts(ops: Sequence[Op], inputs: Collection[str], shared: Collection[str]) -> list[list[Op]]:
    """The operations up to where lanes hand something on to each other and those behind it, where these have more loads
    than stand ahead of their use."""
    parts: list[list[Op]] = [[]]
    for number, op in enumerate(ops):
        parts[-1].append(op)
        if op.is_(STORE) and op["memory"] in shared:
            loads = [one for one in ops[number + 1 :] if one.is_(LOAD) and one["memory"] in inputs]
            if _fitting(loads) < len(loads):
                parts.append([])
    return parts


def _needed(op: Op) -> Iterator[str]:
    """Names of the values that an operation uses, inside its region as well."""
    for inner in op.walk():
        yield from (value.name for value in inner.operands)
        if inner.region:
            yield from (value.name for value in inner.region.yields)


def _with_operands(name: str, waiting: dict[str, Op]) -> list[Op]:
    """The waiting operation that makes a value, after those that it needs; they wait no longer."""
    found: list[Op] = []
    pending = [name]
    while pending:
        op = waiting.get(pending[-1])
        if op is None:
            pending.pop()
            continue
        missing = [value.name for value in op.operands if value.name in waiting]
        pending += reversed(missing)
        if not missing:
            found.append(waiting.pop(pending.pop()))
    return found


def _ahead(ops: Sequence[Op], inputs: Sequence[str] | set[str], bound: frozenset[str]) -> Iterator[Op]:
    """The same with every load of an input, but those at places that are loaded, where a load some places before it
    was."""

    def moves(op: Op) -> bool:
        is_load = op.is_(LOAD) and op["memory"] in inputs
        return is_load and bound.isdisjoint(op.symbols)

    moving = [moves(op) for op in ops]
    loads = list(compress(ops, moving))
    issued = used = 0
    for op, is_moving in zip(ops, moving, strict=True):
        if not is_moving:
            yield op
            continue
        used += 1
        wanted = used + _fitting(loads[used : used + _LOADS_AHEAD])
        yield from loads[issued:wanted]
        issued = max(issued, wanted)


def _fitting(loads: Sequence[Op]) -> int:
    """How many of the loads may be under way together."""
    sizes = (op.result.vector.elements * op.result.vector.dtype.bits // 8 for op in loads)
    return sum(1 for total in accumulate(sizes) if total <= _BYTES_AHEAD)
