"""The operations of a step whose products take a factor from registers in; the same with each product issued as soon as
its part of the factor is there, out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import groupby

from wavespec.ir.kernel import Op, Value
from wavespec.ir.thread_ops import MMA_ASYNC, MMA_COMMIT, MMA_FENCE, MMA_WAIT, PURE
from wavespec.schedule.feeding import feeding


def multiply_as_decoded(ops: Sequence[Op], fresh: Callable[[str], str]) -> list[Op]:
    """Loads first, then part by part: what makes a part of the factor, a fence, its products; the wait is for all.

    ``ops``: of a step, the wait for its one group of products last; those of steps of another kind are returned as they
    are.  The factor goes through the wait: until then the assembler must not use its registers anew.
    """
    fences = [number for number, op in enumerate(ops) if op.is_(MMA_FENCE)]
    if len(fences) != 1 or not ops[-1].is_(MMA_WAIT) or not ops[-2].is_(MMA_COMMIT):
        return list(ops)
    start, (*products, commit, wait) = fences[0], ops[fences[0] + 1 :]
    if any(not op.is_(MMA_ASYNC) or len(op.operands) == 1 for op in products):
        return list(ops)
    parts = [list(group) for _, group in groupby(products, key=lambda op: op.operands[0].name)]
    made = {value.name: number for number, op in enumerate(ops[:start]) for value in op.results}
    others = [number for number, op in enumerate(ops[:start]) if not op.is_(PURE)]
    early = {*others, *feeding(ops[:start], others)}  # such as what is stored for the unit to read
    late = {*range(start)} - early
    if len(parts) < 2 or not all(part[0].operands[0].name in made for part in parts):
        return list(ops)
    result, done = [op for number, op in enumerate(ops[:start]) if number not in late], set[int]()
    for part in parts:
        factor = made[part[0].operands[0].name]
        needed = {number for number in (*feeding(ops[:start], [factor]), factor) if number in late} - done
        result += [ops[number] for number in sorted(needed)]
        result += [replace(ops[start]), *part, replace(commit)]  # emitters know them apart
        done |= needed
    result += [ops[number] for number in sorted(late - done)]
    factors = tuple(part[0].operands[0] for part in parts)
    kept = tuple(Value(fresh(value.name), value.type) for value in factors)
    return [*result, replace(wait, operands=(*wait.operands, *factors), results=(*wait.results, *kept))]
