"""Thread kernel in, thread kernel out: barriers where lanes depend on each other through shared memory, and nowhere else."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

from wavespec.ir.expr import Expr, const
from wavespec.ir.kernel import Kernel, Op
from wavespec.lower.base import Pass
from wavespec.targets.machine import Machine

_LANDED = -1  # age of an access that is complete for its own lane: a plain access, or an awaited copy


@dataclass(frozen=True, slots=True)
class _Access:
    """A shared-memory access since the last barrier.  ``age``: groups committed after it, ``_LANDED`` once complete."""

    memory: str
    buffer: Expr
    writes: bool
    age: int = _LANDED


class PlaceBarriers(Pass):
    """Insert ``barrier`` before every operation that conflicts with another lane's access since the last one.

    Before: accesses in program order, no barriers.
    After:  any two accesses of one buffer of one shared memory, at least one a write, are ordered by a barrier.  Buffers of a
            rotation are told apart by their index; an asynchronous copy counts as a write when issued and again when awaited.
            Loops are walked twice, the second time with the accesses of the iteration before.
    """

    name: ClassVar[str] = "place-barriers"

    def apply(self, kernel: Kernel, machine: Machine) -> Kernel:
        shared = {memory.name for memory in kernel.memories if memory.space == "shared"}
        body, _ = _block(kernel.body, frozenset(), shared)
        return replace(kernel, body=body)


def _block(ops: tuple[Op, ...], pending: frozenset[_Access], shared: set[str]) -> tuple[tuple[Op, ...], frozenset[_Access]]:
    result: list[Op] = []
    for op in ops:
        if op.region:
            op, pending = _loop(op, pending, shared)
            result.append(op)
            continue
        accesses = list(_accesses(op, shared))
        if any(_conflict(before, access) for before in pending for access in accesses):
            result.append(Op("barrier", span=op.span))
            pending = frozenset(access for access in pending if access.age != _LANDED)
        if op.name == "async_commit":
            pending = frozenset(replace(a, age=a.age + 1) if a.age != _LANDED else a for a in pending)
        elif op.name == "async_wait":
            limit = op["pending"]
            pending = frozenset(replace(a, age=_LANDED) if a.age > limit else a for a in pending)
        pending |= frozenset(accesses)
        result.append(op)
    return tuple(result), pending


def _loop(op: Op, pending: frozenset[_Access], shared: set[str]) -> tuple[Op, frozenset[_Access]]:
    body, induction, step = op.body, op["induction"], op["step"]

    def previous(accesses: frozenset[_Access]) -> frozenset[_Access]:
        back = {induction: _induction(op) - step} if _induction(op) is not None else {}
        return frozenset(replace(a, buffer=a.buffer.substitute(back)) for a in accesses)

    _, first = _block(body.ops, pending, shared)
    entering = pending | previous(first)
    ops, after = _block(body.ops, entering, shared)
    _, again = _block(ops, pending | previous(after), shared)
    return replace(op, region=replace(body, ops=ops)), again | after | pending


def _induction(op: Op) -> Expr:
    for inner in op.walk():
        for _, value in inner.attributes:
            for expr in _expressions(value):
                for node in expr.walk():
                    if node.kind == "symbol" and node.args[0] == op["induction"]:
                        return node
    return const(0)


def _expressions(value: object) -> Iterator[Expr]:
    if isinstance(value, Expr):
        yield value
    elif isinstance(value, tuple):
        for item in value:  # pyright: ignore[reportUnknownVariableType]
            yield from _expressions(item)  # pyright: ignore[reportUnknownArgumentType]


def _accesses(op: Op, shared: set[str]) -> Iterator[_Access]:
    if op.name not in ("load", "store", "load_matrix", "copy_async") or op["memory"] not in shared:
        return
    yield _Access(op["memory"], op["buffer"], op.name in ("store", "copy_async"), 0 if op.name == "copy_async" else _LANDED)


def _conflict(before: _Access, after: _Access) -> bool:
    if before.memory != after.memory or not (before.writes or after.writes) or before.age != _LANDED:
        return False
    if before.writes and after.writes:
        return False  # lanes own their elements of a staged tile: a copy never meets another lane's copy
    return not _distinct(before.buffer, after.buffer)


def _distinct(left: Expr, right: Expr) -> bool:
    """Two indices of a rotation that can never be equal: ``(x + a) % s`` and ``(x + b) % s`` with ``a - b`` no multiple of s."""
    if left.is_const and right.is_const:
        return left is not right
    if left.kind == right.kind == "mod" and left.args[1] is right.args[1] and left.args[1].is_const:
        difference = left.args[0] - right.args[0]
        return difference.is_const and difference.value % left.args[1].value != 0
    return False
