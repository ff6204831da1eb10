"""Thread kernel in, thread kernel out: rows that are copied a vector at a time are checked once, in front of the loop along
them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import reduce
from typing import ClassVar

from wavespec.ir.expr import Expr, const, less, minimum, total
from wavespec.ir.kernel import Kernel, Op, Value, rewrite
from wavespec.ir.rewriting import copied
from wavespec.ir.thread import Mask
from wavespec.ir.thread_ops import FOR, LOAD
from wavespec.lower.base import Pass, fresh_names
from wavespec.lower.skip_zeros import one_where
from wavespec.lower.thread_properties import is_of_lanes
from wavespec.targets.machine import Machine


class CheckOnce(Pass):
    """Check in front of a loop along rows, once, whether all that it loads is inside of a tensor.

    Before: a loop loads vectors of several rows, of which the first elements may not be there (``front``): taps side by
            side, in front of an image.
    After:  it stands there twice: where everything is there in every step, loads check nothing but the end that all of
            them have in common; else it is as it was.
    Cases:  1. a check that grows or shrinks with the index of the loop is asked where it is the hardest.
            2. loops with a check of which that is not known, or which carry values, stay.
    """

    name: ClassVar[str] = "check-once"
    requires = (is_of_lanes,)

    def applies_to(self, machine: Machine) -> bool:
        return not machine.concurrent_waves

    def apply(self, kernel: Kernel, machine: Machine) -> Kernel:
        fresh = fresh_names(kernel)
        return replace(kernel, body=rewrite(kernel.body, lambda op: _twice(op, kernel, fresh), FOR))


def _twice(loop: Op, kernel: Kernel, fresh: Callable[[str], str]) -> tuple[Op, ...]:
    loads = [op for op in loop.body.ops if op.is_(LOAD) and op.get("front") is not None]
    if not loads or loop.operands or loop["lower"] != const(0) or any(op.is_(FOR) for op in loop.body.ops):
        return (loop,)
    end = shared_end(loads)
    asked = [_hardest(*pair, loop, kernel) for op in loads for pair in _checks(op, end)]
    checks = tuple(dict.fromkeys(pair for pair in asked if pair is not None))
    if None in asked or _own(loop) & {name for pair in checks for side in pair for name in side.symbols}:
        return (loop,)
    inside = one_where(checks)
    whole = copied(loop, fresh, dict[str, Value]())
    ops = tuple(_unchecked(op, end) if op.get("front") is not None else op for op in whole.body.ops)
    whole = replace(whole, region=replace(whole.body, ops=ops)).with_(upper=loop["upper"] * inside)
    return whole, loop.with_(upper=loop["upper"] * (1 - inside))


def _unchecked(load: Op, end: Expr | None) -> Op:
    attributes = tuple(pair for pair in load.attributes if pair[0] != "front")
    return replace(load, attributes=attributes).with_(mask=(), valid=end)


def shared_end(loads: Sequence[Op]) -> Expr | None:
    """How many elements at most there are in each of several loads, which is one of the ends of each."""
    first, *others = [_ends(op) for op in loads]
    return next((end for end in first if all(end in one for one in others)), None)


def _ends(op: Op) -> tuple[Expr, ...]:
    valid = op["valid"]
    return () if valid is None else valid.args if valid.kind == "min" else (valid,)


def _checks(op: Op, end: Expr | None) -> Iterator[tuple[Expr, Expr]]:
    """What holds where an access has all elements in front of the end that it shares with others."""
    yield from op["mask"]
    yield op["front"], const(1)
    needed = const(op.result.vector.elements) if end is None else end
    yield from ((needed - own, const(1)) for own in _ends(op) if own is not end)


def _own(loop: Op) -> set[str]:
    """The symbols that are known in the loop alone."""
    return {loop["induction"]} | {op["symbol"] for op in loop.body.ops if op.get("symbol") is not None}


def _hardest(left: Expr, right: Expr, loop: Op, kernel: Kernel) -> tuple[Expr, Expr] | None:
    """The check of the step in which it fails if it fails in any."""
    index = kernel.symbol(loop["induction"])
    ends = const(0), loop["upper"] - loop["step"]
    most = _extreme(left - right, index, *ends)
    return None if most is None else (most, const(0))


def _extreme(expr: Expr, index: Expr, first: Expr, last: Expr) -> Expr | None:
    """The most that an expression is where ``index`` is from ``first`` to ``last``, or more; None where it may fall and
    rise."""
    parts = list[tuple[Expr, int]]()
    for by, term in expr.terms():
        if index.args[0] not in term.symbols:
            parts.append((term, by))
            continue
        there = last if by > 0 else first
        value, size = (term, const(1)) if term is index else term.args if term.kind in ("floordiv", "mod") else (None, None)
        if value is not index or size is None or not less(const(0), size):
            return None
        if term.kind == "mod":
            parts.append((size - 1 if by > 0 else const(0), by))
        else:
            parts.append((there // size, by))
    return total([(const(expr.constant_part()), 1), *parts])
