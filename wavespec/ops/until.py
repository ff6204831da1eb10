"""`until`: what ends a loop early, looked at before each of its steps."""

from __future__ import annotations

from collections.abc import Mapping

from wavespec.diagnostics import Span, Where
from wavespec.ir.expr import Expr
from wavespec.ir.kernel import Value
from wavespec.ops.contexts import TileContext
from wavespec.schema.language.expressions import Expression


def goes_on(
    until: Expression,
    where: Where,
    span: Span | None,
    context: TileContext,
    body: TileContext,
    carried: Mapping[str, tuple[Value, Value]],
) -> Expr:
    """1 as long as a loop goes on.

    Its symbols stand for what there is before the loop, and from the end of the body on for what the body has made.

    Args:
        context: what the loop stands in.
        body: its body, complete.
        carried: what each carried name is before the first step, and what the body makes of it.
    """
    symbols = context.bound(until, span, {name: first for name, (first, _) in carried.items()})
    for name, standing in symbols.items():
        if name in carried:
            body.add("bind", (carried[name][1],), (), span, symbol=standing.args[0])
    return 1 - context.expressions.condition(until, where, symbols)
