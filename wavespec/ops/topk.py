"""`topk`: the largest rank along a dim is taken and struck out, time after time."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from wavespec.ir.dtype import DTYPES
from wavespec.ir.expr import const
from wavespec.ir.kernel import Op, Value
from wavespec.ir.layout import Layout, RegisterAxis
from wavespec.ir.tile_ops import ELEMENTWISE, INDEX, REGISTER
from wavespec.ops.argmax import first_of
from wavespec.ops.broadcast import broadcast_fragments
from wavespec.ops.butterfly import butterfly
from wavespec.ops.candidates import Candidates, InOrder
from wavespec.ops.contexts import ReferenceContext, ThreadContext, TileContext
from wavespec.ops.digits import in_reach, lane_bits
from wavespec.ops.insertion import Insertion, Words
from wavespec.ops.parts_of_waves import parts_of_waves
from wavespec.ops.ranks import LAST_PLACE, LEAST_OF, Rank, Ranks, element_of, place_of
from wavespec.ops.reduce import identity, padded
from wavespec.ops.short_ranks import F32_EXPONENT_BITS, FEW_BITS, ShortRanks
from wavespec.ops.sorted_lists import MOST_LISTED, MOST_TAKEN, merged, taken
from wavespec.ops.steps import Steps
from wavespec.schema.ops.topk import Topk


def to_tile(statement: Topk, context: TileContext) -> None:
    name, value = statement.name, context.names[statement.value]
    ranks = Ranks(context, name, statement.span, largest=statement.largest)
    places = None if statement.places is None else context.names[statement.places]
    rank: Rank = ranks.along(value, statement.dim) if places is None else ranks.of(value, places)
    start: Rank = ()
    if statement.init is not None:
        elements, earlier = (context.names[start] for start in statement.init)
        start = ranks.of(elements, earlier)
    dims = tuple(statement.k if dim == statement.dim else dim for dim in value.tile.dims)
    found = tuple(context.tile(f"{name}_found", dims, word.tile.dtype) for word in rank)
    kind, more = value.tile.dtype, dict[str, Any]()
    if places is None and kind.is_float and kind.bits <= FEW_BITS:
        more["number_bits"] = F32_EXPONENT_BITS + kind.mantissa
    context.add("topk", (*rank, *start), found, statement.span, node=name, dim=statement.dim, k=statement.k, **more)
    context.names[name] = ranks.elements(name, found, value.tile.dtype)
    if statement.indices is not None:
        context.names[statement.indices] = ranks.places(statement.indices, found, statement.dtype)


def result_layout(op: Op, layout: Layout) -> Layout:
    """Where what is found lies, given where the ranks do: each lane has all of it for the other dims that it has."""
    found, k = op.results[0].tile, op["k"]
    narrow = layout.projected([dim for dim in found.dims if dim != k])
    base = tuple((dim, const(0) if dim == k else narrow.base_of(dim)) for dim in found.dims)
    if narrow.inner:
        return replace(narrow, base=base).repeated(k, found.extent(k), 1)
    return Layout(base, (*narrow.axes, RegisterAxis(found.extent(k), ((k, 1),))), 1)


def to_thread(op: Op, context: ThreadContext) -> None:
    """What ``init`` has is in order: what is larger is put among it; or its first is compared, and makes way for the
    next when it was the largest."""
    build, words = context.build, len(op.results)
    value, start = op.operands[:words], op.operands[words:]
    layout, dim, hint = value[0].tile.layout, op["dim"], op.results[0].name
    count = op.results[0].tile.extent(op["k"])
    assert layout is not None
    ranks: list[list[list[Value]]] = []
    for word in value:
        fragments: Sequence[Value] = broadcast_fragments(build, word, context.fragments[word.name], layout)
        if op["masked"]:
            nothing = identity("maximum", word.tile.dtype)
            fragments = padded(context, fragments, layout, dim, context.origin(op)[dim], op["size"], nothing)
        ranks.append(_groups(context, fragments, layout, dim))
    is_run = not layout.projected([other for other in layout.dims if other != dim]).inner
    parts = [_in_order(context, context.fragments[word.name], count, is_run) for word in start]
    if (not start or _is_full(op, context)) and _is_listed(ranks, count, context):
        found = [_listed(op, context, layout, ranks[0], parts, is_run)]
    elif start and (others := _other_lanes(op, context, layout, dim)) is not None:

        def largest_of(groups: Sequence[Sequence[Value]]) -> list[Value]:
            joined = [_joined(context, group, is_run, hint) for group in groups]
            return _everywhere(op, context, layout, dim, joined)

        insertion, flags = Insertion(context, hint, largest_of, others), _larger_elements(op, context, layout, parts)
        if flags is None or not _is_listed(ranks, count, context):
            found = insertion.inserted(ranks, parts)
        else:

            def sort(known: Words) -> Words:
                return [_listed(op, context, layout, ranks[0], known, is_run)]

            lanes = [1 << at for at in range((context.kernel.lanes - 1).bit_length())]
            found = insertion.where_larger(flags, lanes, ranks, parts, sort)
    else:
        found = _searched(op, context, layout, ranks, parts, is_run)
    for result, one in zip(op.results, found, strict=True):
        packed = ([context.build.pack(part, hint)] if is_run else part for part in one)
        context.fragments[result.name] = tuple(itertools.chain.from_iterable(packed))


def _other_lanes(op: Op, context: ThreadContext, layout: Layout, dim: str) -> list[int] | None:
    """The bits of the lane number in which lanes of a wave differ that have other places than those along the dim;
    nothing where waves have a part of the dim each, or some only copy, so that a wave cannot take a step of its own."""
    kernel, machine = context.kernel, context.machine
    bits = lane_bits(op, layout, dim, kernel.lanes)
    waves = any(count > 1 and name in layout.base_of(dim).symbols for name, count in kernel.waves)
    if waves or kernel.producers or in_reach(bits, machine)[1] or kernel.lanes > machine.lanes:
        return None
    return [bit for bit in (1 << at for at in range((kernel.lanes - 1).bit_length())) if bit not in bits]


def _is_listed(ranks: Words, count: int, context: ThreadContext) -> bool:
    """Whether ranks of one word are few enough to be sorted by each of several lanes."""
    few = all(sum(one.vector.elements for one in group) <= MOST_LISTED for group in ranks[0])
    return len(ranks) == 1 and few and count <= MOST_TAKEN and context.machine.lanes > 1


def _listed(
    op: Op, context: ThreadContext, layout: Layout, ranks: list[list[Value]], parts: Words, is_run: bool
) -> list[list[Value]]:
    """The first of sorted lists, time after time; or what all started from, where that is larger."""
    build, hint = context.build, op.results[0].name
    if is_run:
        ranks = [
            [build.slice(one, at, 1, hint) for one in group for at in range(one.vector.elements)] for group in ranks
        ]
    count, origin = op.results[0].tile.extent(op["k"]), context.origin(op)[op["dim"]]
    largest_of = functools.partial(_everywhere, op, context, layout, op["dim"])
    short = ShortRanks(build, hint, op.get("number_bits"), op.operands[0].tile.extent(op["dim"]), origin)
    ranks = [[short.of(rank) for rank in group] for group in ranks]
    found = taken(build, ranks, count, largest_of, hint)
    found = [[short.whole(rank) for rank in group] for group in found]
    for starts in [] if _is_full(op, context) else parts:
        found = [merged(build, *both, hint) for both in zip(found, starts, strict=True)]
    return found


def _larger_elements(op: Op, context: ThreadContext, layout: Layout, parts: Words) -> list[Value] | None:
    """For each group 1 where an element of the lane may have a larger rank than the last of what is known: where it
    is larger or NaN, or the place of that is not in front of the tile.  Nothing where places do not lie along the dim.
    """
    build, hint = context.build, op.results[0].name
    made = {value.name: by for by in context.kernel.walk() for value in by.results}
    rank = made.get(op.operands[0].name)
    if len(parts) != 1 or rank is None or not rank.is_(ELEMENTWISE) or rank["function"] not in LEAST_OF:
        return None
    value, is_down = rank.operands[0], rank["function"] == "rank_down"
    places = made.get(rank.operands[1].name)
    if places is None or not places.is_(INDEX):
        return None
    first = build.value(hint, DTYPES["i32"], 1)
    build.add("coordinates", (), (first,), places=(context.origin(op)[op["dim"]],))
    fragments = broadcast_fragments(build, value, context.fragments[value.name], layout)
    flags: list[Value] = []
    for group, known in zip(_groups(context, fragments, layout, op["dim"]), parts[0], strict=True):
        last = element_of(Steps(build, known[-1], hint), known[-1], is_float=value.tile.dtype.is_float, is_down=is_down)
        place = place_of(Steps(build, known[-1], hint), known[-1])
        is_before = build.elementwise("lt", place, build.broadcast(first, place.vector.elements), hint=hint)
        total = build.broadcast(is_before, group[0].vector.elements // is_before.vector.elements)
        for part in group:
            element = build.cast(part, last.vector.dtype, hint)
            pair = (element, build.broadcast(last, element.vector.elements // last.vector.elements))
            is_less = build.elementwise("le", *(pair[::-1] if is_down else pair), hint=hint)
            total = build.elementwise("and", total, is_less, hint=hint)
        one, none = (build.constant(number, DTYPES["i32"], total.vector.elements) for number in (1, 0))
        flags.append(build.reduce("maximum", build.elementwise("where", total, none, one, hint=hint), hint))
    return flags


def _is_full(op: Op, context: ThreadContext) -> bool:
    """Whether there are as many elements as are wanted, and a loop starts from what is less than any of them."""
    made = {value.name: by for by in context.kernel.walk() for value in by.results}
    rank = made.get(op.operands[-1].name)
    if rank is None or not rank.is_(ELEMENTWISE) or rank["function"] not in LEAST_OF:
        return False
    element, place = (made.get(value.name) for value in rank.operands)
    if element is None or place is None or not (element.is_(REGISTER) and place.is_(REGISTER)):
        return False
    least = identity(LEAST_OF[rank["function"]], element.result.tile.dtype)
    whole = const(op.operands[0].tile.extent(op["dim"]))
    there = op["size"] - context.origin(op)[op["dim"]] if op["masked"] else whole
    count = op.results[0].tile.extent(op["k"])
    return element["value"] == least and place["value"] == LAST_PLACE and there.low is not None and there.low >= count


def _searched(
    op: Op, context: ThreadContext, layout: Layout, ranks: Words, parts: Words, is_run: bool
) -> list[list[list[Value]]]:
    """The largest of all, time after time."""
    build, dim, hint = context.build, op["dim"], op.results[0].name
    groups = [Candidates(build, hint, group) for group in zip(*ranks, strict=True)]
    known = [InOrder(build, hint, group) for group in zip(*parts, strict=True)]
    found: Words = [[[] for _ in groups] for _ in ranks]
    for _ in range(op.results[0].tile.extent(op["k"])):
        for number, results in enumerate(found):
            joined = [_joined(context, group.compared, is_run, hint) for group in groups]
            largest = _everywhere(op, context, layout, dim, joined)
            for place, one in enumerate(known):
                largest[place] = _joined(context, [largest[place], *one.compared], False, hint)
                one.narrow(number, largest[place])
            for group, one, result in zip(groups, largest, results, strict=True):
                group.narrow(number, one)
                result.append(one)
        for group in (*groups, *known):
            group.go_on()
    return found


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
    hint = op.results[0].name
    near, far = in_reach(lane_bits(op, layout, dim, context.kernel.lanes), context.machine)
    values = butterfly(context, "maximum", values, near, hint)
    waves = [name for name, count in context.kernel.waves if count > 1 and name in layout.base_of(dim).symbols]
    if not waves and not far:
        return values
    parts = parts_of_waves(context, values, waves, op.node or hint, far)
    return [_joined(context, one, False, hint) for one in parts]


def reference(statement: Topk, context: ReferenceContext) -> None:
    value, dims = context.names[statement.value], context.dims[statement.value]
    axis, made = dims.index(statement.dim), tuple(statement.k if dim == statement.dim else dim for dim in dims)
    start = None
    if statement.init is not None:
        elements, places = (
            context.names[name].permute([context.dims[name].index(dim) for dim in made]) for name in statement.init
        )
        start = elements, places
    places = None
    if statement.places is not None:
        own = context.dims[statement.places]
        places = context.names[statement.places].permute([own.index(dim) for dim in dims])
    found, place = first_of(value, axis, context.sizes[statement.k], start, places, largest=statement.largest)
    context.define(statement.name, made, found)
    if statement.indices is not None:
        context.define(statement.indices, made, place.to(context.plain(statement.dtype)))
