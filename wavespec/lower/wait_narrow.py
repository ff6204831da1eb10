"""Thread kernel in, thread kernel out: elements that wait while lanes meet wait as they were loaded."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import ClassVar

from wavespec.ir.kernel import Kernel, Op, Value, rewrite
from wavespec.ir.rewriting import copied, renamed, uses_of
from wavespec.ir.thread_ops import BARRIER, BROADCAST, CAST, ELEMENTWISE, FOR, OPAQUE, SIGNAL_WAIT, SLICE
from wavespec.lower.base import Pass, fresh_names
from wavespec.lower.load_ahead import registers_of_lane
from wavespec.lower.thread_properties import is_of_lanes
from wavespec.schedule.prefetch import words
from wavespec.targets.machine import Machine

_NARROW_BITS = 16
_OTHERS = 8
"""Registers of a lane for places, while it waits for others."""
_CHEAP = ("add", "mul", "sub")


class WaitNarrow(Pass):
    """Convert elements of 16 bits again behind a meeting of lanes, where these have no registers for larger ones.

    Before: what a row was converted to for its largest element or its sum is used again behind the exchange, and waits
            as f32 for it, in twice the registers.
    After:  where what waits does not fit the registers that the schedule gives a lane, elements wait as they came, and
            are converted in front of their first use behind the meeting, as well as what one instruction makes of them
            and of a number of the row.  ``opaque`` stands before that, as compilers would have both as one.
    """

    name: ClassVar[str] = "wait-narrow"
    requires = (is_of_lanes,)

    def applies_to(self, machine: Machine) -> bool:
        return machine.concurrent_workgroups

    def apply(self, kernel: Kernel, machine: Machine) -> Kernel:
        if kernel.producers or not any(op.is_(BARRIER, SIGNAL_WAIT) for op in kernel.walk()):
            return kernel
        room, fresh = registers_of_lane(kernel, machine) - _OTHERS, fresh_names(kernel)

        def change(op: Op) -> tuple[Op, ...]:
            return (replace(op, region=replace(op.body, ops=_narrowed(op.body.ops, op.body.yields, room, fresh))),)

        body = rewrite(kernel.body, change, FOR)
        body = _narrowed(body, (), room, fresh)
        return kernel if body == kernel.body else replace(kernel, body=body)


def _narrowed(ops: Sequence[Op], yields: Sequence[Value], room: int, fresh: Callable[[str], str]) -> tuple[Op, ...]:
    """The operations with conversions that are made again, where more waits at one of the meetings than has room."""
    meetings = [*accumulate((op.is_(BARRIER, SIGNAL_WAIT) for op in ops), initial=0)]
    made = {value.name: (at, value) for at, op in enumerate(ops) for value in op.results}
    used = defaultdict[str, list[int]](list)
    for at, op in enumerate(ops):
        for value in uses_of(op):
            used[value.name].append(at)
    for value in yields:
        used[value.name].append(len(ops))
    waiting = [0] * (meetings[-1] + 1)
    for name, (at, value) in made.items():
        for meeting in range(meetings[at], meetings[max(used[name], default=at)]):
            waiting[meeting] += words(value)
    if max(waiting) <= room:
        return tuple(ops)
    return _converted_again(ops, meetings, _late(ops), fresh)


def _late(ops: Sequence[Op]) -> dict[str, Op]:
    """By the names of their results, conversions, and what one instruction makes of one and a number of the row."""
    late, alike = dict[str, Op](), set[str]()
    for op in ops:
        if op.is_(CAST) and _is_of_narrow(op):
            late[op.result.name] = op
        elif op.is_(BROADCAST) or (op.is_(SLICE) and op.operands[0].name in alike):
            alike.add(op.result.name)
        elif op.is_(ELEMENTWISE) and op["function"] in _CHEAP:
            names = {value.name for value in op.operands}
            if names & late.keys() and names <= late.keys() | alike:
                late[op.result.name] = op
    return late


def _is_of_narrow(op: Op) -> bool:
    (source,) = op.operands
    narrow, wide = source.vector, op.result.vector
    return narrow.dtype.bits == _NARROW_BITS < wide.dtype.bits and narrow.elements % 2 == 0


def _converted_again(
    ops: Sequence[Op], meetings: Sequence[int], late: Mapping[str, Op], fresh: Callable[[str], str]
) -> tuple[Op, ...]:
    """What is late once in front of its first use behind every meeting behind which it has one."""
    made = {name: meetings[at] for at, op in enumerate(ops) for name in (value.name for value in op.results)}
    names = dict[str, Value]()

    def again(value: Value) -> Iterator[Op]:
        if value.name not in late or value.name in names:
            return
        op, known = late[value.name], names
        if op.is_(CAST):
            (source,) = op.operands
            known = {source.name: Value(fresh(source.name), source.type)}
            yield Op(OPAQUE.name, (source,), (known[source.name],), span=op.span, node=op.node)
        for operand in op.operands:
            yield from again(operand)
        copy = copied(op, fresh, known)
        names[value.name] = copy.result
        yield copy

    result = list[Op]()
    for at, op in enumerate(ops):
        if at and meetings[at] != meetings[at - 1]:
            names.clear()
        for value in uses_of(op):
            if value.name in late and meetings[at] > made[value.name]:
                result += again(value)
        result.append(renamed(op, names))
    return tuple(result)
