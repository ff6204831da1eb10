"""Thread kernel in, thread kernel out: what is announced in front of products is announced a row at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import takewhile
from typing import ClassVar, Final, NamedTuple

from wavespec.ir.expr import Expr, const, minimum, symbol
from wavespec.ir.kernel import Kernel, Op, Region, Value, attribute_pairs, rewrite
from wavespec.ir.rewriting import copied, substituted
from wavespec.ir.thread_ops import FOR, LOAD, MMA, PREFETCH
from wavespec.lower.base import Pass, fresh_names
from wavespec.lower.thread_properties import is_of_lanes, symbols_are_in_scope
from wavespec.targets.machine import Machine

_STEPS: Final = 8
"""Steps of products between two announcements: 100 to 200 cycles, in which a line or two come from the last cache."""


class _Rows(NamedTuple):
    """Announcements of one memory: those of the first of ``rows`` rows, and how far each is from the one before."""

    first: tuple[Op, ...]
    apart: Expr
    rows: int


class SpreadAnnouncements(Pass):
    """Announce rows one after another while products are made, where all of them were announced in front of these.

    Before: a loop of products in vector registers begins with as many ``prefetch`` as its tile of sums has lines.
    After:  the loop begins with some steps for each row, in front of which that row is announced; rows that there are
            no steps for are announced before.  A core waits for few lines at a time: with all of a tile on their way,
            the operands that products wait for, which are in a nearer cache, queue behind these.
    Cases:  products that keep something beside their sums add that up at the end of a loop, tile registers keep sums in
            one loop, and addresses of rows in a tensor are chosen around one; all of them stay as they are.
    """

    name: ClassVar[str] = "spread-announcements"
    requires = (is_of_lanes, symbols_are_in_scope)

    def applies_to(self, machine: Machine) -> bool:
        return machine.globals.prefetch and any(row.b.in_panels for row in machine.instructions)

    def apply(self, kernel: Kernel, machine: Machine) -> Kernel:
        fresh, added = fresh_names(kernel), list[Expr]()

        def change(op: Op) -> tuple[Op, ...]:
            ops = op.body.ops
            for at, loop in enumerate(ops):
                hints = _hints(ops[:at]) if loop.is_(FOR) and can_be_cut(loop, kernel, machine) else ()
                rows = _rows(hints)
                if not rows:
                    continue
                row = symbol(fresh("row"), 0, rows[0].rows - 1)
                added.append(row)
                taken = {id(hint) for hint in hints if any(hint["memory"] == one.first[0]["memory"] for one in rows)}
                before = (one for one in ops[:at] if id(one) not in taken)
                cut = _row_by_row(loop, rows, kernel.symbol(loop["induction"]), row, fresh)
                return (replace(op, region=replace(op.body, ops=(*before, *cut, *ops[at + 1 :]))),)
            return (op,)

        body = rewrite(kernel.body, change, FOR)
        return replace(kernel.with_symbols(*added), body=body) if added else kernel


def can_be_cut(loop: Op, kernel: Kernel, machine: Machine) -> bool:
    if any(kernel.memory(op["memory"]).space == "global" for op in loop.body.ops if op.is_(LOAD)):
        return False
    products = [op for op in loop.body.ops if op.is_(MMA)]
    if len(products) != 1 or len(loop.operands) != 1 or loop["unroll"] != 1 or loop.get("goes_on") is not None:
        return False
    row = machine.instruction(products[0]["instruction"].partition(":")[0])
    if row is None or not row.b.in_panels or row.in_tile_registers:
        return False
    unbiased = not row.a.bias or products[0].get("unbiased")
    return bool(unbiased) and not loop.get("once") and loop["lower"] == const(0) and loop["step"].is_const


def _hints(before: Sequence[Op]) -> tuple[Op, ...]:
    """The announcements in front of a loop, behind every loop before it."""
    near = takewhile(lambda op: op.region is None, reversed(before))
    return tuple(op for op in reversed([*near]) if op.is_(PREFETCH))


def _rows(hints: Sequence[Op]) -> list[_Rows]:
    """Those of each memory as rows that are equally far apart, of all that have as many as the first."""
    found: list[_Rows] = []
    for memory in dict.fromkeys(hint["memory"] for hint in hints):
        own = [hint for hint in hints if hint["memory"] == memory]
        for lines in (size for size in range(1, len(own) // 2 + 1) if len(own) % size == 0):
            ways = {after["offset"] - before["offset"] for before, after in zip(own, own[lines:], strict=False)}
            if len(ways) == 1:
                found.append(_Rows(tuple(own[:lines]), ways.pop(), len(own) // lines))
                break
    return [one for one in found if one.rows == found[0].rows]


def _row_by_row(loop: Op, rows: Sequence[_Rows], index: Expr, row: Expr, fresh: Callable[[str], str]) -> tuple[Op, ...]:
    """Rows that there are no steps for, loops over steps in one over the other rows, and the loop over what is left."""
    piece, one = const(_STEPS) * loop["step"], const(1)
    pieces = minimum(loop["upper"] // piece, rows[0].rows)
    hints = tuple(hint.with_(offset=hint["offset"] + row * of.apart) for of in rows for hint in of.first)
    over = {"induction": row.args[0], "lower": const(0), "upper": pieces, "step": one, "unroll": 1}
    rest = attribute_pairs({**over, "lower": pieces, "upper": const(rows[0].rows)})
    announced = Op("for", (), (), rest, Region((), hints, ()), loop.span)

    def renamed(values: Sequence[Value]) -> tuple[Value, ...]:
        return tuple(Value(fresh(value.name), value.type) for value in values)

    carried, results = renamed(loop.results), renamed(loop.results)
    again = substituted(replace(loop, operands=carried), {loop["induction"]: row * piece + index})
    inner = copied(again.with_(lower=const(0), upper=piece, step=loop["step"]), fresh, {})
    region = Region(carried, (*hints, inner), inner.results)
    outer = replace(loop, attributes=attribute_pairs(over), results=results, region=region)
    return announced, outer, replace(loop.with_(lower=pieces * piece), operands=results)
