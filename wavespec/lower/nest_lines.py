"""Thread kernel in, thread kernel out: products that read rows in place walk over them line by line."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar

from wavespec.ir.expr import Expr, ceildiv, const, less, minimum, symbol
from wavespec.ir.kernel import Kernel, Op, Region, Value, attribute_pairs, rewrite
from wavespec.ir.rewriting import substituted, with_nodes
from wavespec.ir.thread_ops import FOR, LOAD, MMA, PACK
from wavespec.lower.base import Pass, fresh_names
from wavespec.lower.thread_properties import is_of_lanes, symbols_are_in_scope
from wavespec.targets.machine import Machine


class NestLines(Pass):
    """Walk over quotient and remainder of an index in two loops, where products read rows in place by both.

    Before: a loop over k adds up products of what is read of an input at ``index // size`` and ``index % size``: taps
            side by side of a line, then the next line.
    After:  a loop over lines around one along a line, which carries the sums; what is known of a line is computed once
            for it, and the place along it needs no division.
    """

    name: ClassVar[str] = "nest-lines"
    requires = (is_of_lanes, symbols_are_in_scope)

    def applies_to(self, machine: Machine) -> bool:
        return not machine.concurrent_waves

    def apply(self, kernel: Kernel, machine: Machine) -> Kernel:
        fresh, added = fresh_names(kernel), list[Expr]()
        inputs = {memory.name for memory in kernel.memories if memory.role == "input" and memory.mapped}

        def change(loop: Op) -> tuple[Op, ...]:
            return (_by_lines(loop, kernel.symbol(loop["induction"]), inputs, fresh, added),)

        body = rewrite(kernel.body, change, FOR)
        return replace(kernel.with_symbols(*added), body=body) if added else kernel


def _by_lines(loop: Op, index: Expr, inputs: set[str], fresh: Callable[[str], str], added: list[Expr]) -> Op:
    """The loop by lines, and by what a line is divided into; ``added`` gets the symbols that it counts by then."""
    size = line_of(loop, index, inputs)
    if size is None:
        return loop
    nested, symbols = _nested(loop, size, index, fresh)
    added.extend(symbols)
    (inner,) = nested.body.ops
    inner = _by_lines(inner, symbols[1], inputs, fresh, added)
    return replace(nested, region=replace(nested.body, ops=(inner,)))


def line_of(loop: Op, index: Expr, inputs: set[str]) -> Expr | None:
    """The size by which the places of what a loop of products reads in place divide its index."""
    if loop["lower"] is not const(0) or loop["step"] is not const(1) or loop.get("goes_on") is not None:
        return None
    if not loop.operands or any(not op.is_(LOAD, PACK, MMA) for op in loop.body.ops):
        return None
    read = [op for op in loop.body.ops if op.is_(LOAD) and op["memory"] in inputs]
    nodes = (node for op in read for expr in op.expressions() for node in expr.walk())
    sizes = [node.args[1] for node in nodes if node.kind == "floordiv" and node.args[0] is index]
    return next((size for size in sizes if not size.is_const and less(const(0), size)), None)


def _nested(loop: Op, size: Expr, index: Expr, fresh: Callable[[str], str]) -> tuple[Op, tuple[Expr, Expr]]:
    """The two loops, and the symbols they count by."""
    line = symbol(fresh("line"), 0, index.high)
    along = symbol(fresh("along"), 0, index.high)
    ops = tuple(with_nodes(op, {index // size: line, index % size: along}) for op in loop.body.ops)
    ops = tuple(substituted(op, {index.args[0]: line * size + along}) for op in ops)
    carried = tuple(Value(fresh(one.name), one.type) for one in loop.body.arguments)
    results = tuple(Value(fresh(one.name), one.type) for one in loop.results)
    inner = _counting(loop, along, minimum(size, loop["upper"] - line * size))
    inner = replace(inner, operands=carried, results=results, region=replace(loop.body, ops=ops))
    outer = _counting(loop, line, ceildiv(loop["upper"], size))
    return replace(outer, region=Region(carried, (inner,), results)), (line, along)


def _counting(loop: Op, index: Expr, upper: Expr) -> Op:
    return replace(
        loop, attributes=attribute_pairs({**dict(loop.attributes), "induction": index.args[0], "upper": upper})
    )
