"""Thread kernel in, thread kernel out: elements that lie side by side the other way round are loaded as a vector."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import ClassVar, Final

from wavespec.ir.expr import Expr, const, maximum, minimum, symbol
from wavespec.ir.kernel import Kernel, Op, Value, attribute_pairs
from wavespec.ir.rewriting import without_unused
from wavespec.ir.thread import Mask
from wavespec.ir.thread_ops import DOT, LOAD, MMA, PACK, PURE, SLICE
from wavespec.lower.base import Pass, fresh_names
from wavespec.lower.join_remainders import branches
from wavespec.lower.thread_properties import is_of_lanes, symbols_are_in_scope
from wavespec.targets.machine import Machine

_FEWEST: Final = 4
"""Elements of a vector that is worth a check of its own."""


class TurnRuns(Pass):
    """Load elements that lie side by side the other way round as a vector, and turn that.

    Before: a vector is packed of single elements of an input, each at the place in front of that of the one before:
            those of ``x[size(N) - 1 - N]``.
    After:  where all of them are there, they are loaded together, from the last one on, and turned in registers; else
            they are as they were. Both stand in branches, where something is checked. Kernels with products stay.
    """

    name: ClassVar[str] = "turn-runs"
    requires = (is_of_lanes, symbols_are_in_scope)

    def applies_to(self, machine: Machine) -> bool:
        return not machine.concurrent_waves

    def apply(self, kernel: Kernel, machine: Machine) -> Kernel:
        if any(op.is_(MMA, DOT) for op in kernel.walk()):
            return kernel
        turner = _Turner(kernel)
        body = turner.block(kernel.body)
        if not turner.turned:
            return kernel
        body = without_unused(body, lambda op: op.is_(LOAD, PURE))
        return replace(kernel.with_symbols(*turner.symbols), body=body)


class _Turner:
    def __init__(self, kernel: Kernel) -> None:
        self.fresh = fresh_names(kernel)
        self.symbols, self.turned = list[Expr](), 0
        self.loads = {op.result.name: op for op in kernel.walk() if op.is_(LOAD)}
        self.inputs = {memory.name for memory in kernel.memories if memory.role == "input" and memory.space == "global"}

    def block(self, ops: Sequence[Op]) -> tuple[Op, ...]:
        result = list[Op]()
        for op in ops:
            if op.region:
                op = replace(op, region=replace(op.region, ops=self.block(op.region.ops)))
            result += self._vector(op) if op.is_(PACK) else (op,)
        return tuple(result)

    def _vector(self, pack: Op) -> tuple[Op, ...]:
        single = [self.loads[one.name] for one in pack.operands if one.name in self.loads]
        if len(single) < max(_FEWEST, len(pack.operands)) or single[0]["memory"] not in self.inputs:
            return (pack,)
        within = _within(single)
        if within is None:
            return (pack,)
        self.turned += 1
        together = _together(pack, single, self.fresh)
        if within is const(1):
            return (*together[:-1], replace(together[-1], results=pack.results))
        branch = symbol(self.fresh("apart"), 0, 1)
        self.symbols.append(branch)
        # Loads of nothing that is known only in the branch would be done in front of it.
        single = [one.with_(offset=one["offset"] + branch) for one in single]
        return branches(pack, single, within, together, branch, self.fresh)


def _within(single: Sequence[Op]) -> Expr | None:
    """1 where all elements are there, else 0; None where they do not lie side by side, or are not checked alike."""
    first = single[0]
    alike = {one.with_(offset=const(0), mask=()).attributes for one in single}
    if len(alike) > 1 or any(first["offset"] - one["offset"] != const(at) for at, one in enumerate(single)):
        return None
    masks: list[Mask] = [one["mask"] or () for one in single]
    if (
        first["valid"] is not None
        or first.result.vector.elements != 1
        or {len(one) for one in masks} != {len(masks[0])}
    ):
        return None
    rooms = list[Expr]()
    for checks in zip(*masks, strict=True):
        room = [right - left for left, right in checks]
        step = room[0] - room[1]
        if not step.is_const or any(room[0] - one != step * at for at, one in enumerate(room)):
            return None
        rooms.append(room[0] if step.value < 0 else room[-1])
    found = const(1)
    for room in rooms:
        found = minimum(found, maximum(room, 0))
    return found


def _together(pack: Op, single: Sequence[Op], fresh: Callable[[str], str]) -> tuple[Op, ...]:
    """The operations that make the vector of one load."""
    last, vector = single[-1], pack.result
    whole = Value(fresh(vector.name), vector.type)
    load = last.with_(mask=())
    parts = [Value(fresh(vector.name), last.result.type) for _ in single]
    slices = (
        Op(SLICE.name, (whole,), (part,), attribute_pairs({"start": at, "size": 1}), span=pack.span)
        for at, part in enumerate(parts)
    )
    turned = replace(pack, operands=(*reversed(parts),), results=(Value(fresh(vector.name), vector.type),))
    return replace(load, results=(whole,)), *slices, turned
