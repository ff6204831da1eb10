"""A loop over tiles goes in; one in which places that are the same for all tiles of a workgroup say so comes out."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from wavespec.ir.expr import Expr, const, symbol, total
from wavespec.ir.kernel import Op
from wavespec.ir.rewriting import with_nodes
from wavespec.ir.thread_ops import LET
from wavespec.lower.tile_walk import let


def same_in_all_rounds(loop: Op, fresh: Callable[[str], str]) -> tuple[tuple[Op, ...], Op, tuple[Expr, ...]]:
    """What says where the parts of places are that all rounds have in common, the loop with these, and their symbols.

    Such a part is a remainder: tiles that a workgroup takes are some number apart, and where that is a multiple of
    what one divides by, rows of all of them start as far beside an access.  It has a symbol of its own in operations
    that depend on nothing else of the tile, so that they can leave the loop.
    """
    lets: dict[str, Expr] = {}
    for op in loop.body.ops:
        if op.is_(LET):
            lets[op["symbol"]] = op["value"].substitute(lets)
    changing = {loop["induction"]}
    changing |= {name for name, value in lets.items() if not changing.isdisjoint(value.symbols)}
    known: dict[Expr, Expr] = {}

    def changed(op: Op) -> Op:
        if op.is_(LET) or op.region or changing.isdisjoint(op.symbols):
            return op
        found = {node: value for node, value in _remainders(op, lets) if changing.isdisjoint(value.symbols)}
        names = {node: known.get(node) or symbol(fresh("start"), node.low, node.high) for node in found}
        made = with_nodes(op, names)
        if not names or not changing.isdisjoint(made.symbols):
            return op
        known.update(names)
        values.update({names[node].args[0]: value for node, value in found.items()})
        return made

    values: dict[str, Expr] = {}
    ops = tuple(map(changed, loop.body.ops))
    before = tuple(let(name, value) for name, value in values.items())
    return before, replace(loop, region=replace(loop.body, ops=ops)), tuple(known.values())


def _remainders(op: Op, lets: Mapping[str, Expr]) -> Iterator[tuple[Expr, Expr]]:
    """Remainders among the expressions of an operation, and what they are by the round."""
    for expr in op.expressions():
        for node in expr.walk():
            if node.kind == "mod" and not node.symbols.isdisjoint(lets):
                yield node, _multiplied_out(node.substitute(lets))


def _multiplied_out(expr: Expr) -> Expr:
    """The same with sums in place of products of sums, of which a remainder drops what it divides."""
    match expr.kind:
        case "mod":
            left, right = expr.args
            return _multiplied_out(left) % right
        case "sum":
            terms = [(_multiplied_out(term), coefficient) for coefficient, term in expr.terms()]
            return total([*terms, (const(expr.constant_part()), 1)])
        case "product":
            addends = itertools.product(*map(_addends, expr.args))
            return total([(math.prod(factors, start=const(1)), 1) for factors in addends])
        case _:
            return expr


def _addends(expr: Expr) -> list[Expr]:
    if expr.kind != "sum":
        return [expr]
    return [*(coefficient * term for coefficient, term in expr.terms()), const(expr.constant_part())]
