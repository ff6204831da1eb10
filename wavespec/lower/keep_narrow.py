"""Thread kernel in, thread kernel out: what workgroups that stay loaded once waits as it was loaded."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

from wavespec.ir.kernel import Kernel, Op, Value
from wavespec.ir.rewriting import copied, renamed, uses_of
from wavespec.ir.thread_ops import CAST, FOR, OPAQUE, SLICE
from wavespec.lower.base import Pass, fresh_names
from wavespec.lower.load_ahead import can_load_ahead
from wavespec.lower.thread_properties import invariants_are_outside, is_of_lanes
from wavespec.targets.machine import Machine

_NARROW_BITS = 16


class KeepNarrow(Pass):
    """Convert what was loaded in front of a loop over tiles to larger numbers inside of it.

    Before: a workgroup that stays loads the weights of its columns once; they wait as f32, in twice the registers.
    After:  they wait in 16 bits, and every tile converts them in front of their first use.  ``opaque`` stands before
            that, as compilers would convert them in front of the loop again.
    """

    name: ClassVar[str] = "keep-narrow"
    requires = (is_of_lanes, invariants_are_outside)

    def applies_to(self, machine: Machine) -> bool:
        return machine.concurrent_workgroups

    def apply(self, kernel: Kernel, machine: Machine) -> Kernel:
        if not can_load_ahead(kernel):
            return kernel
        homes, fresh = _homes(kernel.body), fresh_names(kernel)
        waiting = defaultdict[int, dict[str, Op]](dict)
        for at, home in homes.items():
            waiting[home][kernel.body[at].result.name] = kernel.body[at]
        body = [(at, op) for at, op in enumerate(kernel.body) if at not in homes]
        ops = (_with_casts(op, waiting[at], fresh) if at in waiting else op for at, op in body)
        return replace(kernel, body=tuple(ops))


def _homes(ops: Sequence[Op]) -> dict[int, int]:
    """Which loop each conversion of narrow values, or part of one, is for: places of both among the operations."""
    users = defaultdict[str, set[int]](set)
    for at, op in enumerate(ops):
        for value in uses_of(op):
            users[value.name].add(at)
    homes = dict[int, int]()
    for at, op in reversed([*enumerate(ops)]):
        found = {homes.get(user, user) for user in users[op.result.name]} if op.is_(CAST, SLICE) else set[int]()
        if len(found) == 1 and ops[home := found.pop()].is_(FOR) and op.result not in ops[home].operands:
            homes[at] = home
    narrow = set[str]()
    for at, op in enumerate(ops):
        if not op.is_(CAST, SLICE):
            narrow |= {value.name for value in op.results if _is_narrow(value)}
        elif op.operands[0].name not in narrow:
            homes.pop(at, None)
        elif at in homes:
            narrow.add(op.result.name)
    return homes


def _is_narrow(value: Value) -> bool:
    return value.vector.dtype.bits == _NARROW_BITS and value.vector.elements % 2 == 0


def _with_casts(loop: Op, waiting: Mapping[str, Op], fresh: Callable[[str], str]) -> Op:
    """The loop with the operations that wait in front of their first use."""
    names = dict[str, Value]()

    def made_of(values: Iterable[Value]) -> Iterator[Op]:
        for value in values:
            if value.name not in waiting or value.name in names:
                continue
            op = waiting[value.name]
            (source,) = op.operands
            yield from made_of(op.operands)
            if source.name not in names:
                names[source.name] = Value(fresh(source.name), source.type)
                yield Op(OPAQUE.name, (source,), (names[source.name],), span=op.span, node=op.node)
            yield copied(op, fresh, names)

    ops = list[Op]()
    for op in loop.body.ops:
        ops += made_of(uses_of(op))
        ops.append(renamed(op, names))
    ops += made_of(loop.body.yields)
    yields = tuple(names.get(value.name, value) for value in loop.body.yields)
    return replace(loop, region=replace(loop.body, ops=tuple(ops), yields=yields))
