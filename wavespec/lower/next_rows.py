"""A loop of products and the loop around it go in; the products, beside a hint what rows they read next, come out."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from wavespec.ir.expr import Expr, const
from wavespec.ir.kernel import Kernel, Op, attribute_pairs, rewrite
from wavespec.ir.thread_ops import FOR, LOAD, MMA, PREFETCH

_WORD_BITS = 32
"""Of an element, or a group of them along k, which a product spreads over a vector."""


def with_next_rows(outer: Op, kernel: Kernel, inputs: Collection[str]) -> Op:
    """The loop, whose products read words of rows side by side in place, with a hint in each step of these.

    A tile of so many rows is one piece of memory, of which a product reads a word of each row in a step.  No machine
    sees a piece in that order.  So a step announces as much of the next tile, from its beginning on.
    """

    def change(loop: Op) -> tuple[Op, ...]:
        if not any(op.is_(MMA) for op in loop.body.ops) or any(op.is_(PREFETCH) for op in loop.body.ops):
            return (loop,)
        rows = _rows(loop, inputs)
        if not rows or outer["induction"] not in rows[0]["offset"].symbols:
            return (loop,)
        return (_announcing(loop, rows, outer, kernel),)

    return replace(outer, region=replace(outer.body, ops=rewrite(outer.body.ops, change, FOR)))


def _announcing(loop: Op, rows: list[Op], outer: Op, kernel: Kernel) -> Op:
    step = kernel.symbol(loop["induction"])
    first, following = rows[0]["offset"], kernel.symbol(outer["induction"]) + outer["step"]
    start = first.substitute({outer["induction"]: following, loop["induction"]: loop["lower"]})
    place = {"memory": rows[0]["memory"], "offset": start + (step - loop["lower"]) * len(rows)}
    hint = Op("prefetch", attributes=attribute_pairs(place), span=rows[0].span, node=rows[0].node)
    return replace(loop, region=replace(loop.body, ops=(hint, *loop.body.ops)))


def _rows(loop: Op, inputs: Collection[str]) -> list[Op]:
    """The loads of words in a loop, in order, where each row begins at the end of the one before it."""
    loads = [op for op in loop.body.ops if op.is_(LOAD) and op["memory"] in inputs]
    if len(loads) < 2 or any(op["memory"] != loads[0]["memory"] for op in loads):
        return []
    ends, first = _ends(loop["upper"]), loads[0]
    pitch = loads[1]["offset"] - first["offset"]
    vector = first.result.vector
    if vector.elements * vector.dtype.bits > _WORD_BITS or not any(pitch is end for end in ends):
        return []
    return loads if all(op["offset"] is first["offset"] + pitch * row for row, op in enumerate(loads)) else []


def _ends(upper: Expr) -> tuple[Expr, ...]:
    """Where a loop may end, not rounded down to whole steps."""
    ends = upper.args if upper.kind == "min" else (upper,)
    return (*ends, *(term.args[0] for end in ends for by, term in end.terms() if _is_rounded(by, term)))


def _is_rounded(by: int, term: Expr) -> bool:
    return term.kind == "floordiv" and term.args[1] is const(by)
