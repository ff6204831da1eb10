"""The operations of a step in; the same, with what lanes read of staged tiles for sums beside their product, out."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from wavespec.ir.kernel import Op, Value
from wavespec.ir.thread_ops import BIND, MMA_ASYNC, MMA_COMMIT, MMA_WAIT, PURE, READS_MEMORY

_OTHERS = 40
"""Registers of a lane, for all that are no sums, factors or tiles."""


def is_read_beside(ops: Sequence[Op], memory: str) -> bool:
    """Whether lanes read a memory for what they make of the sums of a step, not for a factor of its products."""
    return any(_is_read(op, (memory,)) for op in ops) and _made_alone(ops, (memory,)) is not None


def read_ahead(
    ops: Sequence[Op], memories: Collection[str], carried: Iterable[Value], registers: int, *, at_once: bool = False
) -> tuple[list[Op], bool]:
    """The operations with the reads of these memories beside the first product, and whether they are: behind its sums
    where lanes have too few ``registers`` for both, and what loops carry.

    What is made of the reads alone stays behind the sums.  ``at_once``: the reads begin the step, as they wait for
    nothing.
    """
    commit = next(number for number, op in enumerate(ops) if op.is_(MMA_COMMIT))
    wait = next(number for number, op in enumerate(ops) if op.is_(MMA_WAIT) and number > commit)
    made = _made_alone(ops, memories) or set[int]()
    reads = [number for number in sorted(made) if _is_read(ops[number], memories)]
    factors = {value.name: value for op in ops if op.is_(MMA_ASYNC) for value in op.operands[:-1]}
    tiles = (value for number in reads for value in ops[number].results)
    fits = _words([*carried, *ops[wait].results, *factors.values(), *tiles]) <= registers - _OTHERS
    place = -1 if at_once else commit
    bound = {op["symbol"] for op in ops[max(place, 0) :] if op.is_(BIND)}
    is_early = fits and all(bound.isdisjoint(ops[number].symbols) for number in reads)
    ahead = reads if is_early else []
    late = [number for number in sorted(made) if number < wait and number not in ahead]
    others = [number for number in range(len(ops)) if number not in {*ahead, *late}]
    behind = {place: ahead, wait: late}
    return [ops[one] for number in (-1, *others) for one in (number, *behind.get(number, ())) if one >= 0], is_early


def _made_alone(ops: Sequence[Op], memories: Collection[str]) -> set[int] | None:
    """The places of what reads these memories, and of what is made of that without sums of the step; None where a
    product, or memory, takes some of it."""
    found, known, sums = set[int](), set[str](), set[str]()
    for number, op in enumerate(ops):
        names, made = {value.name for value in op.operands}, {value.name for value in op.results}
        if op.is_(MMA_ASYNC, MMA_WAIT) or not names.isdisjoint(sums):
            if op.is_(MMA_ASYNC) and not names.isdisjoint(known):
                return None
            sums |= made
        elif _is_read(op, memories) or not names.isdisjoint(known):
            if not op.is_(PURE | READS_MEMORY):
                return None
            found.add(number)
            known |= made
    return found


def _is_read(op: Op, memories: Collection[str]) -> bool:
    return op.is_(READS_MEMORY) and op["memory"] in memories


def _words(values: Iterable[Value]) -> int:
    return sum(-(-value.vector.elements * value.vector.dtype.bits // 32) for value in values)
