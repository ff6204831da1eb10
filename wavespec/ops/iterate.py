"""`iterate`: a loop over the tiles of a dim, with values carried from step to step."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from wavespec.ir.expr import Expr, const, minimum
from wavespec.ir.kernel import Op, Region, Value, VectorType
from wavespec.ops.contexts import ReferenceContext, ThreadContext, TileContext
from wavespec.ops.index_map import evaluate
from wavespec.ops.until import goes_on
from wavespec.schema.ops import Iterate, Repeat
from wavespec.schema.ops.iterate import StepBelowOne

_LARGEST_COUNT = 2**31 - 1


def to_tile(statement: Iterate, context: TileContext) -> None:
    bounds = dict(context.bounds.get(statement.dim, {}))
    for name, field, bound in (
        ("lower", "start", statement.start),
        ("extent", "end", statement.end),
        ("stride", "step", statement.step),
    ):
        if bound is not None:
            values = context.bound(bound, statement.span_of(field))
            bounds[name] = counted(context.expressions.place(bound, statement.where(field), values), values.values())
    if "stride" in bounds and (bounds["stride"].low or 0) < 1:
        raise StepBelowOne(statement.where("step"))
    loop_to_tile(statement, context, {"dim": statement.dim, **bounds})


def counted(bound: Expr, values: Iterable[Expr]) -> Expr:
    """A bound that the counter of a loop, which ends at the size of a dim, can hold, whatever its values are."""
    is_large = any(value.high is None or value.high > _LARGEST_COUNT for value in values)
    return minimum(bound, _LARGEST_COUNT) if is_large else bound


def loop_to_tile(
    statement: Iterate | Repeat,
    context: TileContext,
    attributes: dict[str, Expr | str | int],
    begin: Callable[[TileContext], None] = lambda _: None,
) -> None:
    """A loop with the carried values and the body of a statement, which ``begin`` writes the start of; it may end
    early."""
    first = tuple(context.names[name] for name in statement.carry.values())
    inner = context.nested()
    arguments: list[Value] = []
    for name, value in zip(statement.carry, first, strict=True):
        argument = context.tile(name, value.tile.dims, value.tile.dtype)
        inner.names[name] = argument
        arguments.append(argument)
    begin(inner)
    for part in statement.body:
        inner.lower(part, inner)
    yields = tuple(inner.names[name] for name in statement.carry)
    if statement.until is not None:
        carried = dict(zip(statement.carry, zip(first, yields, strict=True), strict=True))
        where, span = statement.where("until"), statement.span_of("until")
        attributes["goes_on"] = goes_on(statement.until, where, span, context, inner, carried)
    results: list[Value] = []
    for name, value in zip(statement.carry, first, strict=True):
        result = context.tile(f"{statement.name}_{name}", value.tile.dims, value.tile.dtype)
        context.names[f"{statement.name}.{name}"] = result
        results.append(result)
    region = Region(tuple(arguments), tuple(inner.ops), yields)
    context.add("iterate", first, tuple(results), statement.span, region, statement.name, **attributes)


def to_thread(op: Op, context: ThreadContext) -> None:
    """A loop, or its body repeated with the induction as a constant where ``unroll`` is 0."""
    if op["unroll"] == 0:
        _unrolled(op, context)
    else:
        _loop(op, context)


def _unrolled(op: Op, context: ThreadContext) -> None:
    body = op.body
    carried = [context.fragments[value.name] for value in op.operands]
    for at in range(0, op["extent"].value, op["step"].value):
        context.constants[op["induction"]] = const(at)
        context.fragments.update({a.name: values for a, values in zip(body.arguments, carried, strict=True)})
        context.block(body.ops)
        carried = [context.fragments[value.name] for value in body.yields]
    del context.constants[op["induction"]]
    context.fragments |= {r.name: values for r, values in zip(op.results, carried, strict=True)}


def _loop(op: Op, context: ThreadContext) -> None:
    body = op.body
    carried = [context.fragments[value.name] for value in op.operands]
    outer, context.build = context.build, context.build.nested()
    arguments: list[Value] = []
    for argument, values in zip(body.arguments, carried, strict=True):
        inside = tuple(Value(outer.fresh(argument.name), VectorType(v.vector.dtype, v.vector.elements)) for v in values)
        context.fragments[argument.name] = inside
        arguments.extend(inside)
    context.block(body.ops)
    yields = tuple(v for value in body.yields for v in context.fragments[value.name])
    inner, context.build = context.build, outer
    outer.span, outer.node = op.span, op.node
    flat = tuple(v for values in carried for v in values)
    bounds = op.get("lower", 0), op["extent"], op["step"] * op.get("stride", 1)
    once, goes_on = op.get("once", False), op.get("goes_on")
    parts = flat, tuple(arguments), tuple(inner.ops), yields
    results = iter(outer.loop(op["induction"], *bounds, *parts, once=once, goes_on=goes_on))
    context.fragments |= {
        r.name: tuple(next(results) for _ in values) for r, values in zip(op.results, carried, strict=True)
    }


def reference(statement: Iterate, context: ReferenceContext) -> None:
    """Tiles do not change a result: the body is applied once to whole tensors, where `until` does not hold at first.

    That holds for sums over the dim (an mma reads whole operands here). A body that means something else for other
    tiles, such as one that counts its steps, is refused where a few numbers show it (`depends-on-tile`). Bounds, steps
    and `until` leave out only steps that change nothing.
    """
    for name, first in statement.carry.items():
        context.define(name, context.dims[first], context.names[first])
    ended = evaluate(statement.until, context) if statement.until is not None else None
    before = {name: context.names[name] for name in statement.carry}
    context.run(statement.body)
    for name in statement.carry:
        last = context.names[name]
        value = last if ended is None else context.where(ended, name, before[name], last)
        context.define(f"{statement.name}.{name}", context.dims[name], value)
