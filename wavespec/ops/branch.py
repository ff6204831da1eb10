"""`if`: a loop of one step or none, which carries what the branch may change."""

from __future__ import annotations

from wavespec.ir.expr import Expr, const, symbol
from wavespec.ir.kernel import Region, Value
from wavespec.ops.contexts import ReferenceContext, TileContext
from wavespec.schema.ops import AnyOp, Branch


def to_tile(statement: Branch, context: TileContext) -> None:
    """The bodies one after the other: the second is not run where the first was, and carries on what that left."""
    taken = context.expressions.condition(statement.condition, statement.where("condition"))
    values = tuple(context.names[name] for name in statement.carry.values())
    values = _lowered(statement, statement.body, taken, values, context)
    if statement.otherwise:
        values = _lowered(statement, statement.otherwise, 1 - taken, values, context)
    context.names |= {f"{statement.name}.{name}": value for name, value in zip(statement.carry, values, strict=True)}


def _lowered(
    statement: Branch, body: tuple[AnyOp, ...], taken: Expr, first: tuple[Value, ...], context: TileContext
) -> tuple[Value, ...]:
    inner = context.nested()
    arguments: list[Value] = []
    for name, value in zip(statement.carry, first, strict=True):
        inner.names[name] = context.tile(name, value.tile.dims, value.tile.dtype)
        arguments.append(inner.names[name])
    for part in body:
        inner.lower(part, inner)
    yields = tuple(inner.names[name] for name in statement.carry)
    results = tuple(
        context.tile(f"{statement.name}_{name}", value.tile.dims, value.tile.dtype)
        for name, value in zip(statement.carry, first, strict=True)
    )
    at = symbol(context.fresh(f"{statement.name}_taken"), 0, 1)
    context.symbols.append(at)
    context.add(
        "iterate",
        first,
        results,
        statement.span,
        Region(tuple(arguments), tuple(inner.ops), yields),
        statement.name,
        dim="",
        once=True,
        induction=at.args[0],
        extent=taken,
        step=const(1),
        unroll=1,
    )
    return results


def reference(statement: Branch, context: ReferenceContext) -> None:
    """Whole tensors are one tile; a branch leaves out only what would change nothing."""
    from wavespec.ops import reference_of

    body = statement.body if context.evaluate(statement.condition) else statement.otherwise
    for name, first in statement.carry.items():
        context.define(name, context.dims[first], context.names[first])
    for part in body:
        reference_of(part, context)
    for name in statement.carry:
        context.define(f"{statement.name}.{name}", context.dims[name], context.names[name])
