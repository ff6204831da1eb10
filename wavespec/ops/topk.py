"""`topk`: the largest rank along a dim is taken and struck out, time after time."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace

from wavespec.ir.dtype import DTYPES
from wavespec.ir.expr import const
from wavespec.ir.kernel import Op, Value
from wavespec.ir.layout import Layout, RegisterAxis
from wavespec.ops.argmax import first_of
from wavespec.ops.contexts import ReferenceContext, ThreadContext, TileContext
from wavespec.ops.digits import lane_bits
from wavespec.ops.parts_of_waves import parts_of_waves
from wavespec.ops.ranks import Ranks
from wavespec.ops.reduce import identity, padded
from wavespec.schema.ops.topk import Topk

_RANK = DTYPES["i64"]
_NOTHING = identity("maximum", _RANK)


def to_tile(statement: Topk, context: TileContext) -> None:
    name, value = statement.name, context.names[statement.value]
    ranks = Ranks(context, name, statement.span, largest=statement.largest)
    operands = [ranks.along(value, statement.dim)]
    if statement.init is not None:
        elements, places = (context.names[start] for start in statement.init)
        operands.append(ranks.of(elements, places))
    dims = tuple(statement.k if dim == statement.dim else dim for dim in value.tile.dims)
    found = context.tile(f"{name}_found", dims, "i64")
    context.add("topk", tuple(operands), (found,), statement.span, node=name, dim=statement.dim, k=statement.k)
    context.names[name] = ranks.elements(name, found, value.tile.dtype)
    if statement.indices is not None:
        context.names[statement.indices] = ranks.places(statement.indices, found, statement.dtype)


def result_layout(op: Op, layout: Layout) -> Layout:
    """Where what is found lies, given where the ranks do: each lane has all of it for the other dims that it has."""
    k, count = op["k"], op.result.tile.extent(op["k"])
    narrow = layout.projected([dim for dim in op.result.tile.dims if dim != k])
    base = tuple((dim, const(0) if dim == k else narrow.base_of(dim)) for dim in op.result.tile.dims)
    if narrow.inner:
        return replace(narrow, base=base).repeated(k, count, 1)
    return Layout(base, (*narrow.axes, RegisterAxis(count, ((k, 1),))), 1)


def to_thread(op: Op, context: ThreadContext) -> None:
    """What ``init`` has is in order: its first is compared, and makes way for the next when it was the largest."""
    build, (value, *init), hint = context.build, op.operands, op.result.name
    layout, dim, count = value.tile.layout, op["dim"], op.result.tile.extent(op["k"])
    assert layout is not None
    fragments: Sequence[Value] = context.fragments[value.name]
    if op["masked"]:
        fragments = padded(context, fragments, layout, dim, context.origin(op)[dim], op["size"], _NOTHING)
    groups = _groups(context, fragments, layout, dim)
    is_run = not layout.projected([other for other in layout.dims if other != dim]).inner
    known = [_in_order(context, context.fragments[start.name], count, is_run) for start in init]
    found: list[list[Value]] = [[] for _ in groups]
    for _ in range(count):
        joined = [_joined(context, group, is_run, hint) for group in groups]
        joined = _everywhere(op, context, layout, dim, joined)
        for number, largest in enumerate(joined):
            for lists in known:
                first, *rest = lists[number]
                largest = build.elementwise("maximum", largest, first, hint=hint)
                taken = build.elementwise("eq", largest, first, hint=hint)
                nothing = build.constant(_NOTHING, _RANK, first.vector.elements)
                after = [*rest, nothing]
                lists[number] = [
                    build.elementwise("where", taken, later, one, hint=hint)
                    for one, later in zip(lists[number], after, strict=True)
                ]
            found[number].append(largest)
            groups[number] = [_struck(context, one, largest, hint) for one in groups[number]]
    context.fragments[hint] = tuple(part for one in found for part in ([build.pack(one, hint)] if is_run else one))


def _groups(context: ThreadContext, fragments: Sequence[Value], layout: Layout, dim: str) -> list[list[Value]]:
    """For each place in the other repeats, the registers along the dim: runs of it, or vectors across it."""
    build, inner = context.build, layout.axes[len(layout.repeats) :]
    groups: dict[tuple[int, ...], list[Value]] = {}
    counters = itertools.product(*(range(axis.extent) for axis in layout.repeats))
    along = [bool(axis.stride(dim)) for axis in inner]
    for place, fragment in zip(counters, fragments, strict=True):
        key = tuple(number for number, axis in zip(place, layout.repeats, strict=True) if not axis.stride(dim))
        group = groups.setdefault(key, [])
        if all(along) or not any(along):
            group.append(fragment)
            continue
        across: dict[tuple[int, ...], list[Value]] = {}
        for number, digits in enumerate(itertools.product(*(range(axis.extent) for axis in inner))):
            step = tuple(digit for digit, is_along in zip(digits, along, strict=True) if is_along)
            across.setdefault(step, []).append(build.slice(fragment, number, 1, fragment.name))
        group += [build.pack(parts, fragment.name) for parts in across.values()]
    return list(groups.values())


def _in_order(context: ThreadContext, fragments: Sequence[Value], count: int, is_run: bool) -> list[list[Value]]:
    """For each group, what was found before, the first of it first."""
    if is_run:
        return [[context.build.slice(one, at, 1, one.name) for at in range(count)] for one in fragments]
    return [list(fragments[at : at + count]) for at in range(0, len(fragments), count)]


def _joined(context: ThreadContext, group: Sequence[Value], is_run: bool, hint: str) -> Value:
    total, *others = group
    for other in others:
        total = context.build.elementwise("maximum", total, other, hint=hint)
    return context.build.reduce("maximum", total, hint) if is_run else total


def _everywhere(op: Op, context: ThreadContext, layout: Layout, dim: str, values: list[Value]) -> list[Value]:
    """The largest that any lane and wave along the dim has."""
    build, hint = context.build, op.result.name
    for mask in lane_bits(op, layout, dim, context.kernel.lanes):
        values = [build.elementwise("maximum", one, build.shuffle(one, mask), hint=hint) for one in values]
    waves = [name for name, count in context.kernel.waves if count > 1 and name in layout.base_of(dim).symbols]
    if not waves:
        return values
    parts = parts_of_waves(context, values, waves, op.node or hint)
    return [_joined(context, one, False, hint) for one in parts]


def _struck(context: ThreadContext, value: Value, largest: Value, hint: str) -> Value:
    """The ranks without the one that was taken."""
    build, size = context.build, value.vector.elements
    if largest.vector.elements < size:
        largest = build.broadcast(largest, size)
    taken = build.elementwise("eq", value, largest, hint=hint)
    return build.elementwise("where", taken, build.constant(_NOTHING, _RANK, size), value, hint=hint)


def reference(statement: Topk, context: ReferenceContext) -> None:
    value, dims = context.names[statement.value], context.dims[statement.value]
    axis, made = dims.index(statement.dim), tuple(statement.k if dim == statement.dim else dim for dim in dims)
    start = None
    if statement.init is not None:
        elements, places = (
            context.names[name].permute([context.dims[name].index(dim) for dim in made]) for name in statement.init
        )
        start = elements, places
    found, place = first_of(value, axis, context.sizes[statement.k], start, largest=statement.largest)
    context.define(statement.name, made, found)
    if statement.indices is not None:
        context.define(statement.indices, made, place.to(context.plain(statement.dtype)))
