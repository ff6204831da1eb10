"""A loop of a consumer whose steps each sum up a product from zero in; the same loop, in which the sums of one step are
used beside the product of the next, out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from wavespec.ir.kernel import Kernel, Op, Region, Value
from wavespec.ir.rewriting import copied, substituted
from wavespec.ir.thread_ops import CONSTANT, LOAD, MMA_ASYNC, MMA_COMMIT, MMA_FENCE, MMA_WAIT, PURE, SIGNAL_WAIT
from wavespec.schedule.buffer_ring import trips

_STEPS = 4
"""Of a round."""
_IN_FLIGHT = 2
"""Products of which sums are alive."""
_OTHERS = 40
"""Registers of a lane, for all that are no sums."""


def use_beside_products(kernel: Kernel, loop: Op, registers: int, fresh: Callable[[str], str]) -> tuple[Op, ...]:
    """The loop in rounds of some steps, and the loop over the steps that are left; the loop itself where its steps are
    of another kind, or lanes have too few ``registers`` for the sums of two.

    In a round the product of the next step is issued before the sums of a step are awaited and used, in the registers
    of the sums that were used last.  None is in flight from round to round: the assembler would not find its sums where
    it left them.
    """
    step = _Step.of(kernel, loop)
    if step is None or not has_room_beside(_words(loop.body.arguments), _words(step.wait.results), registers):
        return (loop,)
    at, distance = kernel.symbol(loop["induction"]), loop["step"]
    whole = loop["lower"] + trips(loop) // _STEPS * _STEPS * distance
    names = [dict[str, Value]() for _ in range(_STEPS)]

    def part(number: int, ops: Iterable[Op]) -> list[Op]:
        places = {loop["induction"]: at + number * distance} if number else {}
        return [copied(substituted(op, places), fresh, names[number]) for op in ops]

    ops, carried, free = part(0, step.issue), loop.body.arguments, list[tuple[Value, ...]]()
    for number, known in enumerate(names):
        is_last = number + 1 == _STEPS
        if not is_last:
            issued = part(number + 1, step.issue)
            ops += _in_registers(issued, free.pop()) if free else issued
        known |= {old.name: new for old, new in zip(loop.body.arguments, carried, strict=True)}
        wait = step.wait.with_(pending=0 if is_last else _IN_FLIGHT - 1)
        ops += part(number, (wait, step.release, *step.use))
        carried = tuple(known[value.name] for value in loop.body.yields)
        if not is_last:  # these are there before the next product has registers of the sums that were used
            there = tuple(replace(value, name=fresh(value.name)) for value in carried)
            ops.append(replace(wait, operands=carried, results=there))
            carried = there
            free.append(tuple(known[value.name] for value in step.wait.results))
    results = tuple(replace(value, name=fresh(value.name)) for value in loop.results)
    rounds = loop.with_(upper=whole, step=distance * _STEPS)
    rounds = replace(rounds, results=results, region=Region(loop.body.arguments, tuple(ops), carried))
    rest = copied(replace(loop, operands=results).with_(lower=whole), fresh, {})
    return rounds, replace(rest, results=loop.results)


def has_room_beside(carried: int, sums: int, registers: int) -> bool:
    """Whether a lane has registers for what it carries and for the sums of two products."""
    return carried + _IN_FLIGHT * sums <= registers - _OTHERS


@dataclass(frozen=True, slots=True)
class _Step:
    """The operations of one step: up to the end of its product, its wait, what is made of the sums, its release."""

    issue: tuple[Op, ...]
    wait: Op
    use: tuple[Op, ...]
    release: Op

    @classmethod
    def of(cls, kernel: Kernel, loop: Op) -> _Step | None:
        *ops, release = loop.body.ops
        waits = [number for number, op in enumerate(ops) if op.is_(MMA_WAIT)]
        if loop.get("once") or loop.get("goes_on") is not None or len(waits) != 1 or release.region is None:
            return None
        issue, wait, use = tuple(ops[: waits[0]]), ops[waits[0]], tuple(ops[waits[0] + 1 :])
        if not _is_product_from_zero(kernel, issue) or not all(op.is_(PURE) for op in use):
            return None
        early = all(_names(loop.body.arguments).isdisjoint(_names(op.operands)) for op in issue)
        is_used = _names(wait.results).isdisjoint(_names(loop.body.yields))
        return cls(issue, wait, use, release) if early and is_used else None


def _is_product_from_zero(kernel: Kernel, ops: Sequence[Op]) -> bool:
    """Whether nothing but one group of products is issued, which read shared memory alone and start at zero."""
    zeros = {op.result.name for op in kernel.walk() if op.is_(CONSTANT) and op["value"] == 0}
    products = [op for op in ops if op.is_(MMA_ASYNC)]
    starts = {op.operands[-1].name for op in products} - _names(op.result for op in products)
    known = all(op.is_(SIGNAL_WAIT, LOAD, PURE, MMA_FENCE, MMA_ASYNC, MMA_COMMIT) for op in ops)
    is_one = ops[-1].is_(MMA_COMMIT) and sum(op.is_(MMA_COMMIT) for op in ops) == 1
    return known and is_one and starts <= zeros and all(len(op.operands) == 1 for op in products)


def _in_registers(ops: Sequence[Op], free: Sequence[Value]) -> list[Op]:
    """The product with its sums in the registers of values that nobody uses any more."""
    starts, made = iter(free), _names(op.result for op in ops if op.is_(MMA_ASYNC))
    return [
        replace(op, operands=(next(starts),)).with_(fresh=True)
        if op.is_(MMA_ASYNC) and op.operands[0].name not in made
        else op
        for op in ops
    ]


def _words(values: Iterable[Value]) -> int:
    return sum(value.vector.elements * value.vector.dtype.bits // 32 for value in values)


def _names(values: Iterable[Value]) -> set[str]:
    return {value.name for value in values}
