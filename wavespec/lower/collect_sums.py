"""Thread kernel in, thread kernel out: what lanes combine with a small tensor they combine in shared memory first."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import prod
from typing import ClassVar

from wavespec.ir.dtype import DType
from wavespec.ir.expr import Expr, ceildiv, const, symbol
from wavespec.ir.kernel import Kernel, Memory, Op, Region, attribute_pairs, rewrite
from wavespec.ir.layout import row_major
from wavespec.ir.thread import ThreadBuilder
from wavespec.ir.thread_ops import ATOMIC, ROLE
from wavespec.lower.base import Pass, fresh_names
from wavespec.lower.thread_properties import is_of_lanes
from wavespec.ops.staged_writes import shared_bytes_of_all
from wavespec.targets.machine import Machine

_ADDED_ONCE = 4
"""How often a workgroup combines something with each element, on average, that it collects them for."""
_MOST_SHARE = 4
"""Parts of shared memory, one of which a workgroup that goes may take: others run beside it."""


class CollectSums(Pass):
    """Combine in shared memory what a workgroup combines with a tensor, and that with the tensor once.

    Before: lanes combine elements with a tensor at places that are computed: in memory of the device, where workgroups
            that name the same element wait for each other.
    After:  a workgroup that stays, or combines several times as many elements as the tensor has, begins with a copy of
            it in shared memory whose elements change nothing (0 for a sum), combines its elements with that, and in the
            end that with the tensor.  The tensor has at most as many elements as a part of shared memory, nothing else
            accesses it, nobody asks what it held before, and the machine has instructions for it (`shared.atomics`).
    Example: ten million numbers that are counted in 1,000 bins are that many steps in shared memory, and 1,000 for each
            workgroup in memory of the device.
    """

    name: ClassVar[str] = "collect-sums"
    requires = (is_of_lanes,)

    def applies_to(self, machine: Machine) -> bool:
        return bool(machine.shared.atomics)

    def apply(self, kernel: Kernel, machine: Machine) -> Kernel:
        if any(op.is_(ROLE) for op in kernel.body) or kernel.cluster > 1:
            return kernel
        for memory in kernel.memories:
            function = _combined_by(kernel, memory, machine)
            if function and _is_worth_it(kernel, memory, machine):
                kernel = _collected(kernel, memory, function)
        return kernel


def _combined_by(kernel: Kernel, memory: Memory, machine: Machine) -> str:
    """How all that has to do with a tensor is combined with it, if that is so, and in shared memory possible."""
    if memory.role not in ("output", "inout") or memory.is_strided or not memory.shape:
        return ""
    ops = [op for op in kernel.walk() if memory.name in (value for _, value in op.attributes)]
    if not ops or any(not op.is_(ATOMIC) or op.results or len(op.operands) > 1 for op in ops):
        return ""
    functions = {op["function"] for op in ops}
    (function, *others) = functions
    has = machine.shared.atomics.get(function, ())
    return function if not others and memory.dtype.name in has and function in _NOTHING else ""


def _most_elements(memory: Memory) -> int | None:
    sizes = [size.high for size in memory.shape]
    return None if None in sizes else prod(size for size in sizes if size is not None)


def _is_worth_it(kernel: Kernel, memory: Memory, machine: Machine) -> bool:
    most = _most_elements(memory)
    if most is None:
        return False
    stays, beside = kernel.distribution.persistent, kernel.distribution.resident
    room = machine.shared.bytes // (beside if stays else max(beside, _MOST_SHARE))
    combined = sum(op.operands[0].vector.elements for op in kernel.walk() if op.is_(ATOMIC)) * kernel.threads
    is_often = stays or combined >= _ADDED_ONCE * most
    return is_often and most * memory.dtype.bytes + shared_bytes_of_all(kernel.memories) <= room


_NOTHING: dict[str, Callable[[DType], int]] = {
    "add": lambda _: 0,
    "or": lambda _: 0,
    "xor": lambda _: 0,
    "and": lambda _: -1,
    "maximum": lambda dtype: -(1 << (dtype.bits - 1)),
    "minimum": lambda dtype: (1 << (dtype.bits - 1)) - 1,
}
"""What changes nothing, of integers, by how elements are combined."""


def _collected(kernel: Kernel, memory: Memory, function: str) -> Kernel:
    most = _most_elements(memory)
    assert most is not None
    fresh = fresh_names(kernel)
    name = _free_name(kernel, f"{memory.name}.collected")
    dims = ("element",)
    own = Memory(name, memory.dtype, dims, (const(most),), "shared", arrangement=row_major(dims, (most,)))
    body = rewrite(kernel.body, lambda op: (_moved(op, memory.name, name),), ATOMIC)
    size = prod(memory.shape, start=const(1))
    steps, thread = ceildiv(size, kernel.threads), kernel.wave_number * kernel.lanes + kernel.symbol("lane")
    turns = [symbol(fresh(f"{memory.name}_{when}"), 0, -(-most // kernel.threads)) for when in ("start", "end")]

    def loop(turn: Expr, each: Callable[[ThreadBuilder, Expr], None]) -> Op:
        inside = ThreadBuilder(fresh)
        each(inside, thread + turn * kernel.threads)
        bounds = {"induction": turn.args[0], "lower": const(0), "upper": steps, "step": const(1), "unroll": 1}
        return Op("for", (), (), attribute_pairs(bounds), Region((), tuple(inside.ops), ()))

    before = ThreadBuilder(fresh)
    nothing = before.constant(_NOTHING[function](memory.dtype), memory.dtype, 1, "nothing")

    def start(build: ThreadBuilder, at: Expr) -> None:
        build.store(nothing, name, at, mask=((at, size),))

    def end(build: ThreadBuilder, at: Expr) -> None:
        found = build.load(name, memory.dtype, 1, at, mask=((at, size),))
        build.atomic(function, (found,), memory.name, at, mask=((at, size),))

    first, last = loop(turns[0], start), loop(turns[1], end)
    body = (*before.ops, first, Op("barrier"), *body, Op("barrier"), last)
    return replace(kernel, memories=(*kernel.memories, own), body=body).with_symbols(*turns)


def _moved(op: Op, before: str, after: str) -> Op:
    return op.with_(memory=after) if op["memory"] == before else op


def _free_name(kernel: Kernel, name: str) -> str:
    taken = {memory.name for memory in kernel.memories}
    while name in taken:
        name += "_"
    return name
