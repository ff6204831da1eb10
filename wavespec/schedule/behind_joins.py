"""What stands between two products in; out comes the same in two parts: up to what lanes tell each other of the sums of
the first one, and what is made of these sums behind that."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from wavespec.ir.kernel import Op, Value
from wavespec.ir.thread_ops import BROADCAST, MMA_WAIT, MOVES, PURE, SHUFFLE


@dataclass(frozen=True, slots=True)
class Parts:
    """The operations of a step between its products."""

    joins: tuple[Op, ...]
    """Up to what lanes tell each other, and what is made of that alone."""
    told: tuple[Value, ...]
    """What ``behind`` has of that."""
    behind: tuple[Op, ...]
    """What is made of it together with sums."""


def behind_joins(ops: Sequence[Op], wanted: Collection[str]) -> Parts | None:
    """The parts of ``ops``, of which the second makes the values ``wanted``; None where lanes tell each other nothing
    that these need, or something else than arithmetic needs it too."""
    joined = made_of_joins(ops)
    sums = _made_of(ops, _names(value for op in ops if op.is_(MMA_WAIT) for value in op.results)) - joined
    shuffled = _names(value for op in ops if op.is_(SHUFFLE) for value in op.results) & _made_from(ops, wanted)
    before = _made_from(ops, shuffled)
    with_both = _names(
        value
        for op in ops
        if not joined.isdisjoint(_names(op.operands)) and not sums.isdisjoint(_names(op.operands))
        for value in op.results
        if value.name not in before
    )
    behind = _made_of(ops, with_both)
    if not behind >= set(wanted):
        return None
    used = _names(value for op in ops if not behind.isdisjoint(_names(op.results)) for value in op.operands)
    for op in reversed(ops):  # what only brings together what lanes told each other costs nothing there
        if op.is_(MOVES | BROADCAST) and joined & used >= _names(op.results):
            behind |= _names(op.results)
            used |= _names(op.operands)
    behind = _made_of(ops, behind)
    joins = tuple(op for op in ops if behind.isdisjoint(_names(op.results)))
    late = tuple(op for op in ops if not behind.isdisjoint(_names(op.results)))
    if not all(op.is_(PURE | SHUFFLE) for op in late):
        return None
    used = _names(value for op in late for value in op.operands) & joined
    return Parts(joins, tuple(value for op in joins for value in op.results if value.name in used), late)


def made_of_joins(ops: Sequence[Op]) -> set[str]:
    """What lanes tell each other, and what is made of it."""
    return _made_of(ops, _names(value for op in ops if op.is_(SHUFFLE) for value in op.results))


def _made_of(ops: Iterable[Op], names: Collection[str]) -> set[str]:
    """These names, and those of all that is made of such values."""
    known = set(names)
    for op in ops:
        if not known.isdisjoint(_names(op.operands)):
            known |= _names(op.results)
    return known


def _made_from(ops: Sequence[Op], names: Collection[str]) -> set[str]:
    """These names, and those of all that such values are made of."""
    known = set(names)
    for op in reversed(ops):
        if not known.isdisjoint(_names(op.results)):
            known |= _names(op.operands)
    return known


def _names(values: Iterable[Value]) -> set[str]:
    return {value.name for value in values}
