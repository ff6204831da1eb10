"""Thread kernel in, thread kernel out: the largest score so far is raised only where one of a step is much larger."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar, Final

from wavespec.ir.dtype import DTYPES
from wavespec.ir.expr import symbol
from wavespec.ir.kernel import Kernel, Op, Value, rewrite
from wavespec.ir.rewriting import renamed, uses_of
from wavespec.ir.thread import ThreadBuilder
from wavespec.ir.thread_ops import ELEMENTWISE, FOR, MMA_ASYNC
from wavespec.lower.base import Pass, fresh_names
from wavespec.lower.hoist_invariants import HoistInvariants
from wavespec.lower.largest_so_far import LargestSoFar, largest_so_far
from wavespec.lower.thread_properties import is_of_lanes
from wavespec.targets.machine import Machine

_SUMS_FOR_A_SCORE: Final = 2
"""With four (heads of 256) attention takes 0.92 to 0.97 of its time, with one 0.985 to 1.04, with half of one 1.05."""
_SLACK: Final = 8.0
"""Powers of 2 are at most 2^8 then: sums of them, and weights of 16 bits, have the relative errors that they had."""


class RaiseLate(Pass):
    """Leave the largest score so far where no score of a step is much larger, and with it what was summed up.

    Before: steps of products on the asynchronous matrix unit carry ``highest = max(largest, top)``, where lanes join
            ``top``; powers are ``exp2(x * rate - highest * rate)``, and what was summed is multiplied by ``shrink =
            exp2((largest - highest) * rate)``.
    After:  where no lane of a warp has a score for which ``(score - largest) * rate`` is beyond 8, ``highest`` is
            ``largest``: lanes join nothing, and what products add to is not multiplied, by ones.  Elsewhere rows with
            such a score raise it, and others leave it.  What a row has summed has one factor, 2^8 at most, which its
            quotients do not have.
    Cases:  loops stay as they are where the largest score, or one that a loop behind takes from them, has another use,
            and where a step has as many scores as it multiplies sums, or more; and where one wave waits for memory.
    """

    name: ClassVar[str] = "raise-late"
    requires = (is_of_lanes,)

    def applies_to(self, machine: Machine) -> bool:
        return any(row.reads_shared for row in machine.instructions)

    def apply(self, kernel: Kernel, machine: Machine) -> Kernel:
        if kernel.wave_count < 2 or not any(op.is_(MMA_ASYNC) for op in kernel.walk()):
            return kernel
        found, fresh, symbols = largest_so_far(kernel), fresh_names(kernel), list[str]()

        def change(loop: Op) -> tuple[Op, ...]:
            one = found.get(loop.results[0].name) if loop.results else None
            if one is None or not _pays(loop, one) or not _are_apart(loop, one.scaled):
                return (loop,)
            symbols.append(fresh("raises"))
            return (_raised(loop, one, symbols[-1], fresh),)

        body = rewrite(kernel.body, change, FOR)
        if not symbols:
            return kernel
        kernel = replace(kernel, body=body).with_symbols(*(symbol(name, 0, 1) for name in symbols))
        return HoistInvariants()(kernel, machine)  # rates and numbers are the same in every step


def _pays(loop: Op, one: LargestSoFar) -> bool:
    """Whether a step multiplies more sums than it has scores: what asks for a larger one looks at each of these."""
    scores = sum(op.result.vector.elements for op in loop.body.ops if _is_power(op) and op.result != one.shrink)
    return sum(op.result.vector.elements for op in one.scaled) >= _SUMS_FOR_A_SCORE * scores > 0


def _is_power(op: Op) -> bool:
    return op.is_(ELEMENTWISE) and op["function"] == "exp2"


def _are_apart(loop: Op, scaled: Sequence[Op]) -> bool:
    """Whether there are such operations, and nothing uses a result of theirs before the last one."""
    if not scaled:
        return False
    ops, results = loop.body.ops, {op.result.name for op in scaled}
    before = ops[: next(number for number, op in enumerate(ops) if op is scaled[-1])]
    return not any(value.name in results for op in before for value in uses_of(op))


def _raised(loop: Op, one: LargestSoFar, raises: str, fresh: Callable[[str], str]) -> Op:
    ops, names = list[Op](), dict[str, Value]()
    last = one.scaled[-1]
    for op in loop.body.ops:
        if op is one.chain[0]:
            ops += _raising(one, raises, fresh)
        if op is last:
            branch, results = _scaling(one.scaled, raises, fresh)
            ops.append(renamed(branch, names))
            names |= results
        elif op not in one.chain and op not in one.scaled:
            ops.append(renamed(op, names))
    yields = tuple(names.get(value.name, value) for value in loop.body.yields)
    return replace(loop, region=replace(loop.body, ops=tuple(ops), yields=yields))


def _raising(one: LargestSoFar, raises: str, fresh: Callable[[str], str]) -> tuple[Op, ...]:
    """What joins the scores of lanes, where some lane has one that is much larger."""
    build, inner = ThreadBuilder(fresh), ThreadBuilder(fresh)
    rate = one.rates[0]
    for other in one.rates[1:]:
        rate = build.elementwise("maximum", rate, other, hint="rate")
    more = _excess(build, one.own, one.largest, rate)
    elements = more.vector.elements
    is_near = build.elementwise("le", more, build.constant(_SLACK, more.vector.dtype, elements), hint="is_near")
    yes, no = (build.constant(value, DTYPES["i32"], elements) for value in (1, 0))
    flags = build.elementwise("where", is_near, no, yes, hint=raises)  # also where there was no score, or is none
    flag = build.reduce("maximum", flags, hint=raises) if elements > 1 else flags
    build.add("bind", (flag,), (), symbol=raises, of_any=True)
    *joins, highest = one.chain
    joined = Value(fresh(highest.result.name), highest.result.type)
    inner.ops += (*joins, replace(highest, results=(joined,)))
    raised = inner.elementwise(
        "where", _is_much_larger(inner, joined, one.largest, rate), joined, one.largest, hint="raised"
    )
    build.loop(
        fresh("at_raise"),
        0,
        symbol(raises, 0, 1),
        1,
        (one.largest,),
        (Value(fresh("largest"), one.largest.type),),
        tuple(inner.ops),
        (raised,),
        once=True,
    )
    *before, branch = build.ops
    return *before, replace(branch, results=(highest.result,))


def _excess(build: ThreadBuilder, score: Value, largest: Value, rate: Value) -> Value:
    """By how many powers of 2 a score is larger."""
    return build.elementwise("mul", build.elementwise("sub", score, largest, hint="more"), rate, hint="more")


def _is_much_larger(build: ThreadBuilder, score: Value, largest: Value, rate: Value) -> Value:
    more = _excess(build, score, largest, rate)
    slack = build.constant(_SLACK, more.vector.dtype, more.vector.elements)
    return build.elementwise("lt", slack, more, hint="is_more")


def _scaling(scaled: Sequence[Op], raises: str, fresh: Callable[[str], str]) -> tuple[Op, Mapping[str, Value]]:
    """A branch with what multiplies sums, and what stands for its results behind it."""
    build = ThreadBuilder(fresh)
    before = tuple(op.operands[0] for op in scaled)
    inside = tuple(Value(fresh(value.name), value.type) for value in before)
    ops = tuple(replace(op, operands=(own, op.operands[1])) for op, own in zip(scaled, inside, strict=True))
    results = build.loop(
        fresh("at_scale"),
        0,
        symbol(raises, 0, 1),
        1,
        before,
        inside,
        ops,
        tuple(op.result for op in ops),
        once=True,
    )
    (branch,) = build.ops
    return branch, {op.result.name: result for op, result in zip(scaled, results, strict=True)}
