"""Tile kernel in, tile kernel out: maxima pass over NaN where the results are NaN without their help."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import ClassVar, Final

from wavespec.ir.kernel import Kernel, Op, Value, rewrite
from wavespec.ir.tile_ops import CAST, ELEMENTWISE, ITERATE, MMA, REDUCE, REGISTER, WRITE
from wavespec.lower.base import Pass
from wavespec.lower.tile_properties import products_have_three_operands
from wavespec.targets.machine import Machine

_EXTREMES: Final = ("maximum", "minimum")
_STRICT: Final = frozenset(
    ("abs", "add", "div", "exp2", "floor", "fma", "log2", "maximum", "minimum", "mul", "neg", "rsqrt", "sqrt", "sub")
)
"""Elementwise functions that are NaN where an operand is."""
_LEAST_BITS: Final = 16  # of types that have NaN, all of them


class SkipNan(Pass):
    """Let maxima and minima pass over NaN that reaches the results another way.

    Before: a ``reduce`` that looks for an extreme is NaN where one element is, which takes some machines more than one
            instruction for each.
    After:  it has ``skips_nan`` where whatever it has an influence on leaves the kernel as NaN anyway, by what else is
            computed from that element: a row of weights is NaN where a score is, whatever was subtracted from it.
            So has an ``elementwise`` extreme that only such a one can give NaN.
            Followed are the steps of one loop, and what later steps and what is behind the loop make of it.
    """

    name: ClassVar[str] = "skip-nan"
    requires = (products_have_three_operands,)

    def applies_to(self, machine: Machine) -> bool:
        return machine.extremes_skip_nan

    def apply(self, kernel: Kernel, machine: Machine) -> Kernel:
        loops = [op for op in kernel.body if op.is_(ITERATE)]
        inside = {id(op): loop for loop in loops for op in loop.body.ops}
        chosen = {
            id(op)
            for op in kernel.walk()
            if op.is_(REDUCE) and op["function"] in _EXTREMES and len(op.operands) == 1
            if id(op) in inside and _is_nan_anyway(kernel, op, inside[id(op)])
        }
        for loop in loops:
            chosen |= _followers(kernel, loop, chosen)

        def change(op: Op) -> tuple[Op, ...]:
            return (op.with_(skips_nan=True) if id(op) in chosen else op,)

        return replace(kernel, body=rewrite(kernel.body, change))


def _is_nan_anyway(kernel: Kernel, extreme: Op, loop: Op) -> bool:
    """Whether all that an extreme found in a loop has an influence on is NaN where one of its elements is."""
    rows = frozenset(extreme.result.tile.dims)
    (value,) = extreme.operands
    if not value.tile.dtype.is_float:
        return False
    touched = _touched(kernel, extreme.result, rows)
    if touched is None:
        return False
    spread = _Spread(rows, extreme["dim"], {value.name})
    spread.through(loop.body.ops)
    carried = {number for number, last in enumerate(loop.body.yields) if last.name in spread.whole}
    spread = _Spread(rows, extreme["dim"], set())
    spread.around(loop, carried)
    spread.through(kernel.body[kernel.body.index(loop) + 1 :])
    written = [op.operands[0].name for op in kernel.walk() if op.is_(WRITE)]
    return all(name in spread.whole for name in written if name in touched)


def _followers(kernel: Kernel, loop: Op, chosen: set[int]) -> set[int]:
    """The elementwise extremes in a loop of numbers and of what the chosen ones find, carried values among them."""
    constants = {op.result.name for op in kernel.walk() if op.is_(REGISTER) and not math.isnan(op["value"])}
    carried = {number for number, value in enumerate(loop.operands) if value.name in constants}
    while True:
        known, found = constants | {loop.body.arguments[number].name for number in carried}, set[int]()
        for op in loop.body.ops:
            if id(op) in chosen or (_is_extreme(op) and all(value.name in known for value in op.operands)):
                known |= {result.name for result in op.results}
                found |= {id(op)} if op.is_(ELEMENTWISE) and op.result.tile.dtype.is_float else set()
        kept = {number for number in carried if loop.body.yields[number].name in known}
        if kept == carried:
            return found if any(id(op) in chosen for op in loop.body.ops) else set()
        carried = kept


def _is_extreme(op: Op) -> bool:
    return op.is_(CAST) or (op.is_(ELEMENTWISE) and op["function"] in _EXTREMES)


class _Spread:
    """Where NaN goes: ``parts`` have it somewhere along ``dim`` for some place in ``rows``, ``whole`` in all elements
    there."""

    def __init__(self, rows: frozenset[str], dim: str, parts: set[str], whole: Iterable[str] = ()) -> None:
        self.rows, self.dim, self.parts, self.whole = rows, dim, parts, set(whole)

    def through(self, ops: Sequence[Op]) -> None:
        """Follow it through some operations, each once."""
        for op in ops:
            if op.is_(ITERATE):
                self.around(op, {n for n, value in enumerate(op.operands) if value.name in self.whole})
            elif len(op.results) == 1 and self.rows <= set(op.result.tile.dims):
                self._make(op)

    def around(self, loop: Op, carried: set[int]) -> None:
        """The carried values of a loop that are NaN from one step on, and stay so to its end."""
        body = loop.body
        while True:
            inner = _Spread(self.rows, self.dim, set(), {*self.whole, *(body.arguments[n].name for n in carried)})
            inner.through(body.ops)
            kept = {number for number in carried if body.yields[number].name in inner.whole}
            if kept == carried:
                self.whole |= {loop.results[number].name for number in kept}
                return
            carried = kept

    def _make(self, op: Op) -> None:
        names = [value.name for value in op.operands]
        if _is_strict(op):
            if any(name in self.whole for name in names):
                self.whole.add(op.result.name)
            elif any(name in self.parts for name in names):
                self.parts.add(op.result.name)
        elif op.is_(REDUCE) and op["function"] == "add":
            if names[0] in self.parts and op["dim"] == self.dim:
                self.whole.add(op.result.name)
        elif op.is_(MMA):
            a, b, acc = op.operands[:3]
            sums = set(a.tile.dims) & set(b.tile.dims) - set(acc.tile.dims)
            if acc.name in self.whole or (sums == {self.dim} and self.parts & {a.name, b.name}):
                self.whole.add(op.result.name)


def _is_strict(op: Op) -> bool:
    """Whether an element of the result is NaN where one of the operands is."""
    if op.is_(CAST):
        return all(v.tile.dtype.is_float and v.tile.dtype.bits >= _LEAST_BITS for v in (*op.operands, op.result))
    return op.is_(ELEMENTWISE) and op["function"] in _STRICT and op.result.tile.dtype.is_float


def _touched(kernel: Kernel, value: Value, rows: frozenset[str]) -> set[str] | None:
    """What follows from a value, row by row; None where it leaves its rows, or decides what happens."""
    found, before = {value.name}, 0
    while len(found) != before:
        before = len(found)
        for op in kernel.walk():
            if op.is_(ITERATE):
                of = zip(op.operands, op.body.arguments, op.body.yields, op.results, strict=True)
                for one, argument, last, result in of:
                    if found & {one.name, last.name}:
                        found |= {argument.name, result.name}
            elif found & {operand.name for operand in op.operands}:
                if not _keeps_rows(op, rows, found):
                    return None
                found |= {result.name for result in op.results}
    return found


def _keeps_rows(op: Op, rows: frozenset[str], touched: set[str]) -> bool:
    """Whether what an operation makes of a touched value has an influence on the same rows alone."""
    if op.is_(WRITE):
        return not op.get("combine") and all(value.name not in touched for value in op.operands[1:])
    if not op.is_(ELEMENTWISE, CAST, REDUCE, MMA):
        return False
    return all(rows <= set(result.tile.dims) for result in op.results)
