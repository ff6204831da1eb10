"""Thread kernel in, thread kernel out: products that need no more of each other than sums to add to are in flight
together."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import ClassVar

from wavespec.ir.kernel import Kernel, Op, Value, rewrite
from wavespec.ir.thread_ops import LOAD, LOAD_MATRIX, MMA_ASYNC, MMA_COMMIT, MMA_FENCE, MMA_WAIT, PURE, STORE
from wavespec.lower.base import Pass, fresh_names
from wavespec.lower.thread_properties import is_of_lanes
from wavespec.targets.machine import Machine

_MOVABLE = PURE | LOAD | LOAD_MATRIX


class JoinProducts(Pass):
    """Leave out the wait between products of which one adds to the sums of the other, or that have nothing in common.

    Before: every product of an asynchronous matrix unit ends by waiting for itself.
    After:  a wait whose results nothing but the next product uses is gone; what the first product does not need is
            computed beside it.  The wait that is left has all registers that products in flight read as operands,
            because the assembler would use them anew.  Waits stay where memory that a product reads is written.
            Where the next product follows at once and uses none of the results, both are one group, with one wait for
            the sums of both; so are products of registers with the same memory, as those of parts of one factor.
    """

    name: ClassVar[str] = "join-products"
    requires = (is_of_lanes,)

    def apply(self, kernel: Kernel, machine: Machine) -> Kernel:
        if not any(op.is_(MMA_WAIT) for op in kernel.walk()):
            return kernel
        elsewhere, fresh = _used_elsewhere(kernel), fresh_names(kernel)

        def change(op: Op) -> tuple[Op, ...]:
            if op.region is None:
                return (op,)
            ops = _joined(op.region.ops, elsewhere, fresh)
            return (op if ops == op.region.ops else replace(op, region=replace(op.region, ops=ops)),)

        return replace(kernel, body=_joined(rewrite(kernel.body, change), elsewhere, fresh))


def _used_elsewhere(kernel: Kernel) -> frozenset[str]:
    """Names of values that anything uses but a product which adds to them."""
    found = set[str]()
    for op in kernel.walk():
        found |= _names(op.operands[:-1] if op.is_(MMA_ASYNC) else op.operands)
        found |= _names(op.region.yields if op.region else ())
    return frozenset(found)


def _names(values: Iterable[Value]) -> set[str]:
    return {value.name for value in values}


def _joined(ops: tuple[Op, ...], elsewhere: frozenset[str], fresh: Callable[[str], str]) -> tuple[Op, ...]:
    result, same = list[Op](), dict[str, Value]()
    held, registers, read = list[Value](), list[Value](), set[str]()
    apart, made_before = list[tuple[Value, Value]](), set[int]()
    for number, op in enumerate(ops):
        if id(op) in made_before:
            continue
        if op.is_(MMA_FENCE) and apart and ops[number - 1].is_(MMA_WAIT):
            continue
        op = replace(op, operands=tuple(same.get(value.name, value) for value in op.operands)) if same else op
        if op.is_(MMA_ASYNC):
            registers += op.operands[:-1]
            read |= {memory for memory in (op.get("a_memory"), op["b_memory"]) if memory}
        elif op.is_(MMA_WAIT) and not op["pending"]:
            if _goes_on(op, ops[number + 1 :], read, elsewhere) and _reads_alike(result, ops[number + 1 :]):
                same |= zip((value.name for value in op.results), op.operands, strict=True)
                between = list(itertools.takewhile(lambda one: not one.is_(MMA_FENCE), ops[number + 1 :]))
                start = max(place for place, one in enumerate(result) if one.is_(MMA_FENCE))
                result = [*result[:start], *between, *result[start:-1]]
                made_before = {*map(id, between), id(ops[number + 1 + len(between)])}
                continue
            if _goes_on(op, ops[number + 1 :], read, elsewhere):
                same |= zip((value.name for value in op.results), op.operands, strict=True)
                held, result = registers.copy(), _beside(result)
                continue
            if result[-1].is_(MMA_COMMIT) and _is_apart(op, ops[number + 1 :]):
                apart += zip(op.operands, op.results, strict=True)
                held = registers.copy()
                result.pop()
                continue
            kept = tuple({value.name: value for value in held}.values())
            flying, sums = zip(*apart, strict=True) if apart else ((), ())
            results = (*sums, *op.results, *(replace(value, name=fresh(value.name)) for value in kept))
            op = replace(op, operands=(*flying, *op.operands, *kept), results=results)
            held, registers, read, apart = [], [], set[str](), []
        result.append(op)
    return tuple(result)


def _goes_on(wait: Op, behind: Sequence[Op], read: set[str], elsewhere: frozenset[str]) -> bool:
    """Whether a product behind the wait adds to each of its results, with nothing between that has to wait."""
    sums = _names(wait.results)
    if not sums.isdisjoint(elsewhere):
        return False
    for op in behind:
        if op.is_(MMA_WAIT) or (op.region is not None) or (op.is_(STORE) and op["memory"] in read):
            return False
        if op.is_(MMA_ASYNC):
            sums -= _names(op.operands[-1:])
        if op.is_(MMA_COMMIT):
            return not sums
    return False


def _reads_alike(before: Sequence[Op], behind: Sequence[Op]) -> bool:
    """Whether a product and the next one multiply the same of shared memory by registers, with nothing between but what
    makes these: parts of one factor."""
    between = list(itertools.takewhile(lambda op: not op.is_(MMA_FENCE), behind))
    start = max(number for number, op in enumerate(before) if op.is_(MMA_FENCE))
    product = list(itertools.takewhile(lambda op: not op.is_(MMA_COMMIT), behind[len(between) + 1 :]))
    both = [*before[start + 1 : -1], *product]
    if not all(op.is_(MMA_ASYNC) and len(op.operands) > 1 for op in both) or not all(op.is_(PURE) for op in between):
        return False
    reads = [(op["b_memory"], op["b_offset"]) for op in both]
    return reads[-2 * len(product) : -len(product)] == reads[-len(product) :]


def _is_apart(wait: Op, behind: Sequence[Op]) -> bool:
    """Whether another product follows at once, up to its own wait, and uses none of the results."""
    product = tuple(itertools.takewhile(lambda op: not op.is_(MMA_WAIT), behind))
    follows = bool(product) and all(op.is_(MMA_FENCE, MMA_ASYNC, MMA_COMMIT) for op in product)
    return follows and _names(wait.results).isdisjoint(_names(value for op in product for value in op.operands))


def _beside(ops: list[Op]) -> list[Op]:
    """The operations up to the commit of a product; what it does not need stands behind it."""
    start = max(number for number, op in enumerate(ops) if op.is_(MMA_FENCE))
    first = next((n + 1 for n in range(start - 1, -1, -1) if not ops[n].is_(_MOVABLE)), 0)
    needed, late = set[str]().union(*(_names(op.operands) for op in ops[start:])), list[Op]()
    for op in reversed(ops[first:start]):
        if needed.isdisjoint(_names(op.results)):
            late.append(op)
        else:
            needed |= _names(op.operands)
    moved = set(map(id, late))
    return [*(op for op in ops if id(op) not in moved), *reversed(late)]
