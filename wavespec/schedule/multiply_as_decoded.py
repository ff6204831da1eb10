"""The operations of a step whose products take a factor from registers in; the same with each product issued as soon as
its part of the factor is there, or with all of the factor in front of the first product, out."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from wavespec.ir.kernel import Op, Value
from wavespec.ir.thread_ops import BIND, LOAD, MMA_ASYNC, MMA_COMMIT, MMA_FENCE, MMA_WAIT, PURE
from wavespec.schedule.feeding import feeding

_OTHERS = 40
"""Registers of a lane, for all that are no sums and no factors."""


def multiply_decoded(
    ops: Sequence[Op],
    barrier: Op,
    staged: Collection[str],
    carried: Iterable[Value],
    registers: int,
    fresh: Callable[[str], str],
) -> list[Op] | None:
    """What makes the factor, the ``barrier`` behind which nothing is read but by the matrix unit, and the products: so
    the next step's factor can be made while they read this one.

    None of steps of another kind, where lanes have too few ``registers`` for two factors and what a loop ``carried``,
    and where that is less than a factor: such products end before anything is decoded beside them, and fewer registers
    leave room for more waves.  None where something that is not ``staged`` is read as well: that would be asked for
    when the products are issued, and takes longer than they do.
    """
    step = _decoding(ops)
    if step is None or not all(op.is_(BIND, PURE) or _reads(op, staged) for op in ops[: step.start]):
        return None
    sums, factors = _words(carried), _words(step.factors)
    if sums < factors or sums + 2 * factors > registers - _OTHERS:
        return None
    return [*ops[: step.start], barrier, *ops[step.start : -1], _keeping(ops[-1], step.factors, fresh)]


def multiply_as_decoded(ops: Sequence[Op], fresh: Callable[[str], str]) -> list[Op]:
    """Loads first, then part by part: what makes a part of the factor, a fence, its products; the wait is for all.

    ``ops``: of a step, the wait for its one group of products last; those of steps of another kind are returned as they
    are.  The factor goes through the wait: until then the assembler must not use its registers anew.
    """
    step = _decoding(ops)
    if step is None or len(step.factors) < 2:
        return list(ops)
    start, (*products, commit, wait) = step.start, ops[step.start + 1 :]
    others = [number for number, op in enumerate(ops[:start]) if not op.is_(PURE)]
    early = {*others, *feeding(ops[:start], others)}  # such as what is stored for the unit to read
    late = {*range(start)} - early
    made = {value.name: number for number, op in enumerate(ops[:start]) for value in op.results}
    result, done = [op for number, op in enumerate(ops[:start]) if number not in late], set[int]()
    for name, part in groupby(products, key=lambda op: op.operands[0].name):
        needed = {number for number in (*feeding(ops[:start], [made[name]]), made[name]) if number in late} - done
        result += [ops[number] for number in sorted(needed)]
        result += [replace(ops[start]), *part, replace(commit)]  # emitters know them apart
        done |= needed
    result += [ops[number] for number in sorted(late - done)]
    return [*result, _keeping(wait, step.factors, fresh)]


@dataclass(frozen=True, slots=True)
class _Decoding:
    """A step with one group of products, all of which take a factor from registers."""

    start: int
    """Where its fence is."""
    factors: tuple[Value, ...]
    """The parts of what the products take, in order."""


def _reads(op: Op, memories: Collection[str]) -> bool:
    return op.is_(LOAD) and op["memory"] in memories


def _decoding(ops: Sequence[Op]) -> _Decoding | None:
    fences = [number for number, op in enumerate(ops) if op.is_(MMA_FENCE)]
    if len(fences) != 1 or not ops[-1].is_(MMA_WAIT) or not ops[-2].is_(MMA_COMMIT):
        return None
    start, products = fences[0], ops[fences[0] + 1 : -2]
    if any(not op.is_(MMA_ASYNC) or len(op.operands) == 1 for op in products):
        return None
    made = {value.name for op in ops[:start] for value in op.results}
    factors = tuple(next(part).operands[0] for _, part in groupby(products, key=lambda op: op.operands[0].name))
    return _Decoding(start, factors) if all(value.name in made for value in factors) else None


def _keeping(wait: Op, factors: Sequence[Value], fresh: Callable[[str], str]) -> Op:
    kept = tuple(Value(fresh(value.name), value.type) for value in factors)
    return replace(wait, operands=(*wait.operands, *factors), results=(*wait.results, *kept))


def _words(values: Iterable[Value]) -> int:
    return sum(value.vector.elements * value.vector.dtype.bits // 32 for value in values)
