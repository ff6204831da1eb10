"""`if`: a loop of one step or none, which carries what the branch may change."""

from __future__ import annotations

from typing import TYPE_CHECKING

from wavespec.ir.expr import Expr, const, symbol
from wavespec.ir.kernel import Region, Value
from wavespec.ops.contexts import ReferenceContext, TileContext
from wavespec.ops.index_map import evaluate
from wavespec.schema.ops import AnyOp, Branch

if TYPE_CHECKING:
    import torch


def to_tile(statement: Branch, context: TileContext) -> None:
    """The bodies one after the other: the second is not run where the first was, and carries on what that left.  Where
    tiles end by the same condition, all that there are have the first."""
    if statement.condition in context.always:
        _inlined(statement, context)
        return
    values = context.bound(statement.condition, statement.span_of("condition"))
    taken = context.expressions.condition(statement.condition, statement.where("condition"), values)
    carried = tuple(context.names[name] for name in statement.carry.values())
    carried = _lowered(statement, statement.body, taken, carried, context)
    if statement.otherwise:
        carried = _lowered(statement, statement.otherwise, 1 - taken, carried, context)
    context.names |= {f"{statement.name}.{name}": value for name, value in zip(statement.carry, carried, strict=True)}


def _inlined(statement: Branch, context: TileContext) -> None:
    inner = context.nested()
    inner.names |= {name: context.names[first] for name, first in statement.carry.items()}
    for part in statement.body:
        inner.lower(part, inner)
    context.ops += inner.ops
    context.names |= {f"{statement.name}.{name}": inner.names[name] for name in statement.carry}


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
    at = symbol(context.fresh(f"taken_of_{statement.name}"), 0, 1)
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
    """Whole tensors are one tile; a branch on places leaves out only what would change nothing.

    One on values has for each of their elements what its body makes of it; that nothing depends on values but by
    `torch.where` makes it traceable.
    """

    condition = evaluate(statement.condition, context)
    dims, taken = condition
    is_known = not any(name in context.names for name in statement.condition.names())
    results: list[dict[str, torch.Tensor]] = []
    for body, holds in ((statement.body, taken), (statement.otherwise, ~taken)):
        for name, first in statement.carry.items():
            context.define(name, context.dims[first], context.names[first])
        if not is_known:
            context.conditions.append((dims, holds))
            context.run(body)
            context.conditions.pop()
        elif holds.any():
            context.run(body)
        results.append({name: context.names[name] for name in statement.carry})
    for name in statement.carry:
        value = context.where(condition, name, results[0][name], results[1][name])
        context.define(f"{statement.name}.{name}", context.dims[name], value)
