"""Thread kernel in, thread kernel out: rows that vectors copy are checked once, in front of the loop along them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import reduce
from typing import ClassVar

from wavespec.ir.expr import Expr, const, less, minimum, total
from wavespec.ir.kernel import Kernel, Op, Value, rewrite
from wavespec.ir.rewriting import copied
from wavespec.ir.thread_ops import FOR, LOAD
from wavespec.lower.base import Pass, fresh_names
from wavespec.lower.nest_lines import line_of
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
            2. products that read lines in place are such loops as well: sums go from the one to the other, and where
               everything is there nothing is checked.
            3. loops with a check of which that is not known, and others that carry values, stay.
    """

    name: ClassVar[str] = "check-once"
    requires = (is_of_lanes,)

    def applies_to(self, machine: Machine) -> bool:
        return not machine.concurrent_waves

    def apply(self, kernel: Kernel, machine: Machine) -> Kernel:
        fresh = fresh_names(kernel)
        return replace(kernel, body=rewrite(kernel.body, lambda op: _twice(op, kernel, fresh), FOR))


def _twice(loop: Op, kernel: Kernel, fresh: Callable[[str], str]) -> tuple[Op, ...]:
    inputs = {memory.name for memory in kernel.memories if memory.role == "input" and memory.mapped}
    if loop.operands and line_of(loop, kernel.symbol(loop["induction"]), inputs) is None:
        return (loop,)
    loads = [op for op in loop.body.ops if _is_asked(op, loop)]
    if not loads or loop["lower"] != const(0) or any(op.is_(FOR) for op in loop.body.ops):
        return (loop,)
    known = set[str]()  # where products are not checked at all, no check is left to what all of them have in common
    if not loop.operands:
        known = {loop["induction"]}.union(*(size.symbols for size in kernel.all_sizes.values()))
    asked = [_hardest(*pair, loop, kernel) for op in loads for pair in _checks_of_rows(op, known)]
    checks = tuple(dict.fromkeys(pair for pair in asked if pair is not None))
    if None in asked or _own(loop) & {name for pair in checks for side in pair for name in side.symbols}:
        return (loop,)
    inside = one_where(checks)
    whole = copied(loop, fresh, dict[str, Value]())
    ops = tuple(_checked_alike(op, known) if _is_asked(op, loop) else op for op in whole.body.ops)
    whole = replace(whole, region=replace(whole.body, ops=ops)).with_(upper=loop["upper"] * inside)
    return whole, replace(loop, operands=whole.results).with_(upper=loop["upper"] * (1 - inside))


def _is_asked(op: Op, loop: Op) -> bool:
    if not loop.operands:
        return _may_begin_outside(op)
    along = loop["induction"]
    return op.is_(LOAD) and any(along in side.symbols for pair in op["mask"] for side in pair)


def _may_begin_outside(op: Op) -> bool:
    return op.is_(LOAD) and op.get("front") is not None


def _checked_alike(load: Op, known: set[str]) -> Op:
    """With what is checked of all rows alike."""
    attributes = tuple(pair for pair in load.attributes if pair[0] != "front")
    mask = tuple(pair for pair in load["mask"] if _is_alike(pair, known))
    return replace(load, attributes=attributes).with_(mask=mask, valid=_end(load, known))


def _is_alike(pair: tuple[Expr, Expr], known: set[str]) -> bool:
    """Whether a check is one of the place along a row alone."""
    return all(side.symbols <= known for side in pair)


def _end(load: Op, known: set[str]) -> Expr | None:
    """How many elements there are at most in front of the end that all rows have."""
    alike = [end for end in _ends(load) if end.symbols <= known]
    return reduce(minimum, alike) if alike else None


def _ends(load: Op) -> tuple[Expr, ...]:
    valid: Expr | None = load["valid"]
    return () if valid is None else valid.args if valid.kind == "min" else (valid,)


def _checks_of_rows(load: Op, known: set[str]) -> Iterator[tuple[Expr, Expr]]:
    """What holds beside that where a row is there as far as an access reaches."""
    yield from (pair for pair in load["mask"] if not _is_alike(pair, known))
    if (front := load.get("front")) is not None:
        yield front, const(1)
    end = _end(load, known)
    needed = const(load.result.vector.elements) if end is None else end
    yield from ((needed - own, const(1)) for own in _ends(load) if not own.symbols <= known)


def _own(loop: Op) -> set[str]:
    """The symbols that are known in the loop alone."""
    return {loop["induction"]} | {op["symbol"] for op in loop.body.ops if op.get("symbol") is not None}


def _hardest(left: Expr, right: Expr, loop: Op, kernel: Kernel) -> tuple[Expr, Expr] | None:
    """The check of the step in which it fails if it fails in any."""
    index = kernel.symbol(loop["induction"])
    step: Expr = loop["step"]
    last = loop["upper"] - (step if step.is_const and loop["upper"].divisor % step.value == 0 else 1)
    most = _extreme(left - right, index, const(0), last, nested=bool(loop.operands))
    return None if most is None else (most, const(0))


def _extreme(expr: Expr, index: Expr, first: Expr, last: Expr, *, nested: bool) -> Expr | None:
    """The most that an expression is where ``index`` is from ``first`` to ``last``, or more; None where it may fall and
    rise, and of quotients of more than the index where these are not ``nested``: copies of such lines take as long, and
    would stand twice."""
    parts = list[tuple[Expr, int]]()
    for by, term in expr.terms():
        if index.args[0] not in term.symbols:
            parts.append((term, by))
            continue
        value, size = term.args if term.kind in ("floordiv", "mod") else (term, const(1))
        behind = value.beyond(index)
        if (behind is None and not nested) or not less(const(0), size):
            return None
        if term.kind == "mod":
            parts.append((size - 1 if by > 0 else const(0), by))
        elif behind is not None:
            parts.append((((last if by > 0 else first) + behind) // size, by))
        elif term.kind == "floordiv" and (
            (most := _extreme(value if by > 0 else 0 - value, index, first, last, nested=True)) is not None
        ):
            parts.append(((most if by > 0 else 0 - most) // size, by))
        else:
            return None
    return total([(const(expr.constant_part()), 1), *parts])
