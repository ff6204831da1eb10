"""Operations in, the same operations with other values, or with expressions in place of symbols, out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from typing import Any, cast

from wavespec.ir.expr import Expr, rebuilt
from wavespec.ir.kernel import Op, Region, Value
from wavespec.ir.nodes import replace


def uses_of(op: Op) -> Iterator[Value]:
    """Values that an operation takes, inside of its region as well."""
    for one in op.walk():
        yield from one.operands
        yield from one.body.yields if one.region else ()


def uses_in(body: Region, value: Value) -> int:
    """How often operations of a body take a value, or it is what the body ends with."""
    return [*(used for op in body.ops for used in uses_of(op)), *body.yields].count(value)


def renamed(op: Op, names: Mapping[str, Value]) -> Op:
    """The operation with operands replaced, inside its region as well; itself where it has none of them."""
    if op.region is None and not any([value.name in names for value in op.operands]):
        return op
    region = op.region
    if region:
        ops = tuple(renamed(inner, names) for inner in region.ops)
        region = replace(region, ops=ops, yields=tuple(names.get(v.name, v) for v in region.yields))
    return replace(op, operands=tuple(names.get(v.name, v) for v in op.operands), region=region)


def substituted(op: Op, replacement: Mapping[str, Expr]) -> Op:
    """The operation with symbols replaced in the expressions among its attributes, inside its region as well; itself
    where it has none of them."""
    if not replacement or (op.region is None and op.symbols.isdisjoint(replacement)):
        return op
    attributes = tuple(
        [(key, _in_value(value, lambda one: one.substitute(replacement))) for key, value in op.attributes]
    )
    region = op.region
    if region:
        region = replace(region, ops=tuple(substituted(inner, replacement) for inner in region.ops))
    return replace(op, attributes=attributes, region=region)


def with_nodes(op: Op, known: Mapping[Expr, Expr]) -> Op:
    """The operation with expressions in place of others, and of parts of them, inside its region as well."""
    attributes = tuple([(key, _in_value(value, lambda one: _rebuilt(one, known))) for key, value in op.attributes])
    region = op.region
    if region:
        region = replace(region, ops=tuple(with_nodes(inner, known) for inner in region.ops))
    return replace(op, attributes=attributes, region=region)


def copied(op: Op, fresh: Callable[[str], str], names: MutableMapping[str, Value]) -> Op:
    """The operation with new names for all that it defines, which `names` then holds; operands follow `names`."""

    def new(values: tuple[Value, ...]) -> tuple[Value, ...]:
        for value in values:
            names[value.name] = Value(fresh(value.name), value.type)
        return tuple([names[value.name] for value in values])

    operands = tuple([names.get(v.name, v) for v in op.operands])
    region = op.region
    if region:
        arguments = new(region.arguments)
        ops = tuple(copied(inner, fresh, names) for inner in region.ops)
        region = replace(
            region, arguments=arguments, ops=ops, yields=tuple(names.get(v.name, v) for v in region.yields)
        )
    return replace(op, operands=operands, results=new(op.results), region=region)


def without_unused(ops: Sequence[Op], does_nothing_else: Callable[[Op], bool]) -> tuple[Op, ...]:
    """The operations without those whose results nobody uses, of such that do nothing but make them."""
    return _without_unused(ops, does_nothing_else, set())


def _without_unused(ops: Sequence[Op], does_nothing_else: Callable[[Op], bool], used: set[str]) -> tuple[Op, ...]:
    """``used``: values that are used behind the operations; those that they use are added."""
    kept: list[Op] = []
    for op in reversed(ops):
        for value in op.results:
            if value.name in used:
                break
        else:
            if does_nothing_else(op):
                continue
        if op.region:
            used.update([value.name for value in op.region.yields])
            inside = _without_unused(op.region.ops, does_nothing_else, used)
            op = op if inside == op.region.ops else replace(op, region=replace(op.region, ops=inside))
        for value in op.operands:
            used.add(value.name)
        kept.append(op)
    return tuple(reversed(kept))


def _in_value(value: Any, change: Callable[[Expr], Expr]) -> Any:
    if isinstance(value, Expr):
        return change(value)
    if isinstance(value, tuple):
        return tuple(_in_value(item, change) for item in cast("tuple[Any, ...]", value))
    return value


def _rebuilt(expr: Expr, known: Mapping[Expr, Expr]) -> Expr:
    if expr in known:
        return known[expr]
    match expr.kind:
        case "const" | "symbol":
            return expr
        case "sum":
            terms = tuple((count, _rebuilt(term, known)) for count, term in expr.args[1])
            return rebuilt("sum", (expr.args[0], terms))
        case kind:
            return rebuilt(kind, tuple(_rebuilt(argument, known) for argument in expr.args))
