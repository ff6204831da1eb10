"""Thread kernel in, thread kernel out: barriers where lanes depend on each other, and nowhere else."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from wavespec.ir.expr import Expr
from wavespec.ir.kernel import Kernel, Op, attribute_pairs
from wavespec.ir.nodes import node, replace
from wavespec.ir.thread_ops import (
    ASYNC_COMMIT,
    ASYNC_WAIT,
    BARRIER,
    COPY_ASYNC,
    IF,
    MMA_ASYNC,
    READS_MEMORY,
    ROLE,
    STAGGER,
    WRITES_MEMORY,
)
from wavespec.lower.base import Pass
from wavespec.lower.thread_properties import accesses_are_ordered, buffers_are_in_range, is_of_lanes
from wavespec.schedule.buffer_ring import READS, TURN, WAVES_IN_TURN
from wavespec.targets.machine import Machine

_WALKS = 16  # more than a rotation of the most stages takes to repeat itself
_ORDERED = READS_MEMORY | WRITES_MEMORY | COPY_ASYNC | MMA_ASYNC | BARRIER | STAGGER | ASYNC_COMMIT | ASYNC_WAIT
_LANDED = -1  # age of an access that is complete for its own lane: a plain access, or an awaited copy


@node
class _Access:
    """A shared-memory access since the last barrier.

    ``buffer``: which copy of a rotation, None where nothing is known any more.  ``age``: groups committed
    after it, ``_LANDED`` once complete.  ``passed``: barriers behind it, which do not suffice for waves that are apart.
    """

    memory: str
    buffer: Expr | None
    writes: bool
    age: int = _LANDED
    passed: int = 0


_Pending = frozenset[_Access]


class PlaceBarriers(Pass):
    """Insert ``barrier`` before every operation that conflicts with another lane's access since the last one.

    Before: accesses in program order, no barriers.
    After:  any two accesses of one buffer of one shared memory, at least one a write, are ordered by a
            barrier.  Buffers of a rotation are told apart by their index; an asynchronous copy counts as a
            write once it is awaited.  Loops are walked until what enters an iteration no longer changes.
            Where halves of the waves are one barrier apart (``stagger``), it takes two barriers.
            Waves with roles meet among themselves, those that take turns each with their own; what one role fills and
            another one reads is ordered by signals.
    """

    name: ClassVar[str] = "place-barriers"
    requires = (is_of_lanes, buffers_are_in_range)
    ensures = (accesses_are_ordered,)

    def apply(self, kernel: Kernel, machine: Machine) -> Kernel:
        if kernel.threads == 1:  # one lane has nobody to wait for
            return kernel
        roles = [op for op in kernel.body if op.is_(ROLE)]
        if not roles:
            scope = _Scope(kernel, _shared(kernel, kernel.body), ())
            body, _ = _block(scope, kernel.body, frozenset(), 1)
            return replace(kernel, body=body)
        body = (_of_role(kernel, op, roles) if op.is_(ROLE) else op for op in kernel.body)
        return replace(kernel, body=tuple(body))


@dataclass(frozen=True, slots=True)
class _Scope:
    """Waves that meet: the attributes of their ``barrier``, and the shared memories that it orders accesses of."""

    kernel: Kernel
    memories: frozenset[str]
    waves: tuple[tuple[str, Any], ...]
    known: dict[int, tuple[_Access, ...]] = field(default_factory=dict[int, "tuple[_Access, ...]"], compare=False)
    """By the identity of operations, which live as long as the kernel: bodies of loops are walked several times."""

    def is_barrier(self, op: Op) -> bool:
        return op.is_(BARRIER) and dict(op.attributes) == dict(self.waves)


def _shared(kernel: Kernel, ops: Iterable[Op]) -> frozenset[str]:
    """Shared memories that operations name, but those of which each lane has its own part."""
    named = {name for outer in ops for op in outer.walk() for key, name in op.attributes if key in READS}
    shared = (memory for memory in kernel.memories if memory.space == "shared" and not memory.own)
    return frozenset(memory.name for memory in shared if memory.name in named)


def _of_role(kernel: Kernel, role: Op, roles: Sequence[Op]) -> Op:
    alone = _shared(kernel, (role,)) - _shared(kernel, (other for other in roles if other is not role))
    first, waves = role["first"], role["waves"]
    if first.is_const and first.value == 0 and TURN in dict(kernel.waves):
        waves //= WAVES_IN_TURN
        first = kernel.symbol(TURN) * waves
    scope = _Scope(kernel, alone, attribute_pairs({"first": first, "waves": waves}))
    ops, _ = _block(scope, role.body.ops, frozenset(), 1)
    return replace(role, region=replace(role.body, ops=ops))


def _block(scope: _Scope, ops: tuple[Op, ...], pending: _Pending, needed: int) -> tuple[tuple[Op, ...], _Pending]:
    """The operations with barriers, and what they leave behind; it takes ``needed`` barriers to order accesses."""
    result: list[Op] = []
    for op in ops:
        if op.region:
            op, pending = _loop(scope, op, pending, needed)
        if op.region or not op.is_(_ORDERED):
            result.append(op)
            continue
        accesses = scope.known.get(id(op))
        if accesses is None:
            accesses = scope.known[id(op)] = _accesses(scope, op)
        if accesses:
            conflicts = (before for before in pending if any(_conflict(before, access) for access in accesses))
            missing = max((needed - before.passed for before in conflicts), default=0)
            for _ in range(missing):
                result.append(Op("barrier", attributes=scope.waves, span=op.span))
                pending = _met(pending, needed)
        if scope.is_barrier(op):
            pending = _met(pending, needed)
        elif op.is_(STAGGER):
            # Going apart is a barrier for one half: accesses before it take one more for the other half.
            pending = _met(pending, 2) if op["ahead"] else pending
            needed = 1 + op["ahead"]
            pending = frozenset(before for before in pending if before.age != _LANDED or before.passed < needed)
        elif op.is_(ASYNC_COMMIT):
            pending = frozenset(replace(a, age=a.age + 1) if a.age != _LANDED else a for a in pending)
        elif op.is_(ASYNC_WAIT):
            limit = op["pending"]
            pending = frozenset(replace(a, age=_LANDED) if a.age > limit else a for a in pending)
        elif accesses:
            pending |= frozenset(accesses)
        result.append(op)
    return tuple(result), pending


def _met(pending: _Pending, needed: int) -> _Pending:
    """What is left of accesses behind a barrier: copies in flight, and what one barrier more has to order."""
    met = (replace(before, passed=before.passed + 1) if before.age == _LANDED else before for before in pending)
    return frozenset(before for before in met if before.passed < needed)


def _loop(scope: _Scope, op: Op, pending: _Pending, needed: int) -> tuple[Op, _Pending]:
    if op.is_(IF) or op.get("once"):
        ops, after = _block(scope, op.body.ops, pending, needed)
        return replace(op, region=replace(op.body, ops=ops)), after | pending
    induction: str = op["induction"]
    at = scope.kernel.symbol(induction)

    def shifted(accesses: _Pending) -> _Pending:
        """What an iteration leaves behind, in terms of the next one."""
        back = {induction: at - op["step"]}
        return frozenset(a if a.buffer is None else replace(a, buffer=a.buffer.substitute(back)) for a in accesses)

    def relative(access: _Access) -> _Access:
        """A fixed buffer in terms of the first iteration, which is the one it meets."""
        count = scope.kernel.memory(access.memory).buffers
        if at.is_const or count == 1 or access.buffer is None or not access.buffer.is_const or not op["lower"].is_const:
            return access
        return replace(access, buffer=((at - op["lower"]) // op["step"] + access.buffer) % count)

    outside = frozenset(relative(access) for access in pending)
    entering = outside
    for _ in range(_WALKS):
        _, after = _block(scope, op.body.ops, entering, needed)
        before, entering = entering, outside | shifted(after)
        if entering == before:
            break
    else:
        entering = outside | frozenset(
            replace(a, buffer=None, age=_LANDED) for o in op.walk() for a in _accesses(scope, o)
        )
    ops, after = _block(scope, op.body.ops, entering, needed)
    left = frozenset(
        replace(a, buffer=None) if a.buffer is not None and induction in a.buffer.symbols else a for a in after
    )
    return replace(op, region=replace(op.body, ops=ops)), left | pending


def _accesses(scope: _Scope, op: Op) -> tuple[_Access, ...]:
    if op.is_(MMA_ASYNC):  # computed operands: the second one, or both
        operands = (op.get("a_memory"), op.get("a_buffer")), (op["b_memory"], op["b_buffer"])
        return tuple(_Access(name, buffer, False) for name, buffer in operands if name in scope.memories)
    if not op.is_(READS_MEMORY, WRITES_MEMORY, COPY_ASYNC) or op["memory"] not in scope.memories:
        return ()
    if op.get("rank") is not None:  # signals order what workgroups of a cluster read of each other
        return ()
    is_copy = op.is_(COPY_ASYNC)
    return (_Access(op["memory"], op.get("buffer"), op.is_(WRITES_MEMORY, COPY_ASYNC), 0 if is_copy else _LANDED),)


def _conflict(before: _Access, after: _Access) -> bool:
    if before.memory != after.memory or not (before.writes or after.writes) or before.age != _LANDED:
        return False
    if before.writes and after.writes:
        return False  # lanes own their elements of a staged tile: a copy never meets another lane's copy
    return before.buffer is None or after.buffer is None or not _distinct(before.buffer, after.buffer)


def _distinct(left: Expr, right: Expr) -> bool:
    """Whether indices of a rotation are never equal: ``(x + a) % s``, ``(x + b) % s``, s divides no a - b."""
    if left.is_const and right.is_const:
        return left is not right
    if left.kind == right.kind == "mod" and left.args[1] is right.args[1] and left.args[1].is_const:
        difference = left.args[0] - right.args[0]
        return difference.is_const and difference.value % left.args[1].value != 0
    return False
