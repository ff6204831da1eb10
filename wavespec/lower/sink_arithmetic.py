"""Thread kernel in, thread kernel out: what is computed around the loops is computed when it is needed."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from itertools import accumulate, compress, groupby
from typing import ClassVar

from wavespec.ir.kernel import Kernel, Op, Region, Value, rewrite
from wavespec.ir.thread_ops import ATOMIC, BIND, FOR, LOAD, PURE, SLICE, STORE
from wavespec.lower.base import Pass
from wavespec.lower.thread_properties import is_of_lanes, symbols_are_in_scope, values_are_used
from wavespec.targets.machine import Machine

_LOADS_AHEAD = 16
"""Loads of an epilogue that are under way at a time: enough to fill the memory's latency, few beside the sums."""
_BYTES_AHEAD = 96
"""Of a lane that such loads may bring in."""
_REGISTER_BYTES = 4


class SinkArithmetic(Pass):
    """Move arithmetic, and loads of inputs, down to their first use.

    Before: an epilogue as lowered, each operation for the whole tile before the next one.
    After:  around the loops, operations that only make values stand in front of what needs them, piece by piece, so
            that the registers of sums are free when the results are there; what nothing needs is gone.  Stores in a
            row stay so.  Loads stand some way ahead of their use; on machines that reorder them they stay.
            Where several workgroups share the registers of a processor, and rows fill them, what is loaded for the
            results is loaded where they are stored, one after the other, and not before lanes have met.
            What a step of a loop carries on is made one after the other as well, where a lane has vectors of which
            its registers hold fewer than all that steps make of the tile.
    """

    name: ClassVar[str] = "sink-arithmetic"
    requires = (is_of_lanes, symbols_are_in_scope)
    ensures = (values_are_used,)

    def apply(self, kernel: Kernel, machine: Machine) -> Kernel:
        if machine.vector_registers:
            kernel = replace(kernel, body=rewrite(kernel.body, lambda op: (_piece_by_piece(op, machine),), FOR))
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
        first = _first_meeting(kernel)
        is_crowded = first is not None and _is_crowded(kernel, first, inputs, machine)
        result: list[Op] = []
        for are_stores, ops in groupby(fixed, lambda op: op.is_(STORE, ATOMIC) and not op.results):
            for group in [list(ops)] if are_stores and not is_crowded else [[op] for op in ops]:
                for name in (name for op in group for name in _needed(op)):
                    result += _with_operands(name, waiting)
                result += group
        met = result.index(first) + 1 if first is not None and is_crowded else 0
        parts = result[:met], result[met:]
        return replace(kernel, body=tuple(op for part in parts for op in _ahead(part, inputs, bound)))


def _piece_by_piece(loop: Op, machine: Machine) -> Op:
    """A loop with what it computes in the order of its use, where registers hold that and not what the order of tiles
    keeps alive."""
    body = loop.body
    if not all(op.is_(PURE, LOAD) for op in body.ops):
        return loop
    waiting = {op.result.name: op for op in body.ops}
    ops = tuple(op for value in body.yields for op in _with_operands(value.name, waiting))
    sooner = replace(body, ops=ops)
    if not _most_registers(sooner, machine) <= machine.vector_registers < _most_registers(body, machine):
        return loop
    return replace(loop, region=sooner)


def _most_registers(body: Region, machine: Machine) -> int:
    """Vectors that are alive at a time: what a step carries on, and what it makes; what is cut is its parts."""
    cut = {op.operands[0].name for op in body.ops if op.is_(SLICE)}
    last = {value.name: at for at, op in enumerate(body.ops) for value in op.operands}
    last |= {value.name: len(body.ops) for value in body.yields}
    alive = {value.name: _vectors(value, machine) for value in body.arguments}
    most = sum(alive.values())
    for at, op in enumerate(body.ops):
        if op.result.name not in cut:
            alive[op.result.name] = _vectors(op.result, machine)
        for value in op.operands:
            if last[value.name] == at:
                alive.pop(value.name, None)
        most = max(most, sum(alive.values()))
    return most


def _vectors(value: Value, machine: Machine) -> int:
    kind = value.vector
    return -(-kind.elements * kind.dtype.bits // (8 * machine.vector_bytes))


def _first_meeting(kernel: Kernel) -> Op | None:
    """The first operation that hands something on to other lanes by shared memory, for which they meet."""
    shared = {memory.name for memory in kernel.memories if memory.space == "shared"}
    return next((op for op in kernel.body if op.is_(STORE) and op["memory"] in shared), None)


def _is_crowded(kernel: Kernel, meeting: Op, inputs: Collection[str], machine: Machine) -> bool:
    """Whether what is loaded before lanes meet leaves less than half of the registers, and whole accesses follow that
    are more than stand ahead of their use."""
    resident = kernel.distribution.resident
    if resident == 1:
        return False
    at = kernel.body.index(meeting)
    before, behind = (
        [op for op in ops if op.is_(LOAD) and op["memory"] in inputs] for ops in (kernel.body[:at], kernel.body[at:])
    )
    room = machine.register_file // (kernel.threads * resident) * _REGISTER_BYTES
    are_whole = all(_bytes(op) == machine.globals.access_bytes for op in behind)
    return are_whole and _fitting(behind) < len(behind) and sum(map(_bytes, before)) + _BYTES_AHEAD > room // 2


def _bytes(load: Op) -> int:
    return load.result.vector.elements * load.result.vector.dtype.bits // 8


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
    return sum(1 for total in accumulate(map(_bytes, loads)) if total <= _BYTES_AHEAD)
