"""Thread kernel in, thread kernel out: loops whose index is divided by a size walk over quotient and remainder."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from wavespec.ir.expr import Expr, ceildiv, const, maximum, minimum, symbol
from wavespec.ir.kernel import Kernel, Op, Region, attribute_pairs, rewrite
from wavespec.ir.rewriting import with_nodes
from wavespec.ir.thread_ops import FOR, NAMES_A_SYMBOL
from wavespec.lower.base import Pass
from wavespec.lower.thread_properties import is_of_lanes, symbols_are_in_scope
from wavespec.lower.tile_walk import let
from wavespec.targets.machine import Machine


class NestDigits(Pass):
    """Walk over quotient and remainder of an index in two loops, where waves that only copy divide it in every step.

    Before: a loop of such waves uses ``index // size`` and ``index % size``, of a size whose multiples its steps meet.
    After:  a loop over the quotients around one over the remainders; a ``let`` says what the index is.  What follows
            from the quotient is computed once for all remainders.  A division takes as long as a small tile's products.
    """

    name: ClassVar[str] = "nest-digits"
    requires = (is_of_lanes, symbols_are_in_scope)

    def applies_to(self, machine: Machine) -> bool:
        return bool(machine.globals.bulk_row_bytes)

    def apply(self, kernel: Kernel, machine: Machine) -> Kernel:
        if not kernel.producers:
            return kernel
        added: list[Expr] = []

        def change(op: Op) -> tuple[Op, ...]:
            size = _divisor(op, kernel) if not op.operands else None
            if size is None:
                return (op,)
            nested, symbols = _nested(op, size, kernel.symbol(op["induction"]))
            added.extend(symbols)
            return (nested,)

        body = rewrite(kernel.body, change, FOR)
        return replace(kernel.with_symbols(*added), body=body)


def _divisor(loop: Op, kernel: Kernel) -> Expr | None:
    """The size by which most of a loop's places divide its index, if each multiple of it is a step's index."""
    index, step = kernel.symbol(loop["induction"]), loop["step"]
    if loop["lower"] is not const(0) or not step.is_const or loop.get("goes_on") is not None:
        return None
    changing = {op["symbol"] for op in loop.body.ops if op.is_(NAMES_A_SYMBOL)} | {loop["induction"]}
    nodes = (node for op in loop.walk() if op is not loop for expr in op.expressions() for node in expr.walk())
    sizes = (node.args[1] for node in nodes if node.kind in ("floordiv", "mod") and node.args[0] is index)
    fitting = (
        size
        for size in sizes
        if not size.is_const and not size.divisor % step.value and changing.isdisjoint(size.symbols)
    )
    return next(fitting, None)


def _nested(loop: Op, size: Expr, index: Expr) -> tuple[Op, tuple[Expr, Expr]]:
    """The two loops, and the symbols they count by."""
    name, step = loop["induction"], loop["step"].value
    size_or_one = maximum(size, step)  # the quotient by an empty dim is never used, but computed
    most = None if index.high is None else index.high // max(size.low or 0, step)
    quotient = symbol(f"{name}.quotient", 0, most)
    remainder = symbol(f"{name}.remainder", 0, None if size.high is None else max(0, size.high - step), step)
    known = {index // size: quotient, index % size: remainder}
    whole = quotient * size_or_one
    inside = tuple(with_nodes(op, known) for op in loop.body.ops)
    inner = _counting(loop, remainder, minimum(size_or_one, loop["upper"] - whole), step)
    inner = replace(inner, region=Region((), (let(name, whole + remainder), *inside), ()))
    outer = _counting(loop, quotient, ceildiv(ceildiv(loop["upper"], step), size_or_one // step), 1)  # within 32 bits
    return replace(outer, region=Region((), (inner,), ())), (quotient, remainder)


def _counting(loop: Op, index: Expr, upper: Expr, step: int) -> Op:
    attributes = {**dict(loop.attributes), "induction": index.args[0], "upper": upper, "step": const(step), "unroll": 1}
    return replace(loop, attributes=attribute_pairs(attributes))
