"""The reductions: registers of a lane first, then lanes of a wave, then waves of a workgroup."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from wavespec.ir.dtype import DTYPES, DType, computed
from wavespec.ir.expr import Expr, const
from wavespec.ir.kernel import Op, Value
from wavespec.ir.layout import Layout
from wavespec.ir.thread import ThreadBuilder
from wavespec.ops.butterfly import butterfly
from wavespec.ops.contexts import ReferenceContext, ThreadContext, TileContext
from wavespec.ops.digits import in_reach, lane_bits
from wavespec.ops.parts_of_cluster import parts_of_cluster
from wavespec.ops.parts_of_waves import (
    bits_of_parts,
    lanes_of_parts,
    part_of_each_lane,
    parts_of_launched,
    parts_of_waves,
)
from wavespec.schema.ops.reduce import Reduce

if TYPE_CHECKING:
    import torch

_Join = Callable[[Value, Value], Value]
_FEW_WAVES = 8
"""As many parts are read one after another sooner than lanes join them."""
_RUN = 32
"""Registers that are joined in one chain."""
_ROUNDED = ("add", "mul")
_IDENTITY = {"add": 0, "mul": 1, "maximum": -float("inf"), "minimum": float("inf")}
"""What changes nothing; of integers the range takes the place of infinity."""

OF_NUMBERS = {"maximum": "fmax", "minimum": "fmin"}
"""The same, passing over NaN."""


def to_tile(statement: Reduce, context: TileContext) -> None:
    """One dim of one value after the other; what is between is not rounded."""
    values = [context.names[name] for name in statement.values]
    start = None if statement.init is None else context.names[statement.init]
    if statement.reduction.of_flags:  # whole numbers travel between lanes
        values = [_cast(statement, context, value, "i32") for value in values]
        start = start and _cast(statement, context, start, "i32")
    for number, value in enumerate(values):
        for dim in statement.along[:-1]:
            value = _one(statement, context, value, dim, None, is_last=False)
        is_last = number == len(values) - 1
        start = _one(statement, context, value, statement.along[-1], start, is_last=is_last)
    assert start is not None
    context.names[statement.name] = _cast(statement, context, start, "bool") if statement.reduction.of_flags else start


def _one(
    statement: Reduce, context: TileContext, value: Value, dim: str, start: Value | None, *, is_last: bool
) -> Value:
    tile, how = value.tile, statement.reduction
    small = tile.dtype.is_float and tile.dtype.bits < 32
    dtype = DTYPES["f32"] if small and not is_last else context.names[statement.values[0]].tile.dtype
    dtype = DTYPES["i32"] if how.of_flags else dtype
    result = context.tile(statement.name, tuple(other for other in tile.dims if other != dim), dtype)
    operands = (value,) if start is None else (value, start)
    attributes = {"dim": dim, "function": how.function, "divided": how.divided}
    context.add("reduce", operands, (result,), statement.span, None, statement.name, **attributes)
    return result


def _cast(statement: Reduce, context: TileContext, value: Value, dtype: str) -> Value:
    result = context.tile(statement.name, value.tile.dims, dtype)
    context.add("cast", (value,), (result,), statement.span, node=statement.name)
    return result


def to_thread(op: Op, context: ThreadContext) -> None:
    """Small floats are joined in f32, but the largest of a lane where the machine finds those of two at a time."""
    build, (value, *init) = context.build, op.operands
    layout, result, dim, function = value.tile.layout, op.result, op["dim"], op["function"]
    assert layout is not None and result.tile.layout is not None
    dtype = result.tile.dtype
    compute = computed(dtype)
    held = value.tile.dtype if _in_words(op, context) else compute
    fragments = [build.cast(part, held, result.name) for part in context.fragments[value.name]]
    if op.get("masked"):
        origin, size, nothing = context.origin(op)[dim], op["size"], identity(function, held)
        starts = _whole_accesses(layout, dim, origin, size) if context.kernel.lanes > 1 else ()
        if starts:
            word = OF_NUMBERS[function] if op.get("skips_nan") else function
            whole = build.sum_of if op.get("products") else functools.partial(build.reduce, word)
            whole = whole if held == compute else functools.partial(_joined_to_word, build, function)
            fragments = [whole(part, result.name) for part in fragments]
            pairs = zip(fragments, starts, strict=True)
            fragments = [build.pad(part, start, 0, size, nothing) for part, start in pairs]
        else:
            fragments = padded(context, fragments, layout, dim, origin, size, nothing)
    if op.get("skips_nan"):
        function = OF_NUMBERS[function]
    near, far = in_reach(lane_bits(op, layout, dim, context.kernel.lanes), context.machine)
    waves = [name for name, count in context.kernel.waves if count > 1 and name in layout.base_of(dim).symbols]
    # Where other lanes have parts of the sum, memory is waited for, and products that somebody needs are there anyway.
    is_own = context.kernel.lanes > 1 and function == "add" and not near and not far and not waves
    join = functools.partial(build.add_products, hint=result.name) if is_own or op.get("products") else None
    # The last additions of a long sum round numbers about as large as it: few of them, where no other lanes join more.
    is_last = value.name in context.totals and compute.is_float and not near and not far and not waves
    run = 1 if is_last and function in _ROUNDED and join is None else _RUN
    joined = registers_joined(context, fragments, layout, dim, function, result.name, join, run)
    joined = [build.cast(one, compute, result.name) for one in joined]
    joined = butterfly(context, function, joined, near, result.name)
    if op.get("alone"):
        waves, far = [], []
    lanes, counts = context.kernel.lanes, dict(context.kernel.waves)
    are_alike = all("lane" not in base.symbols for _, base in result.tile.layout.base)
    is_one = are_alike and not far and len(waves) == 1 and counts[waves[0]] <= lanes
    if is_one and context.kernel.launched is not None and all(one.vector.elements == 1 for one in joined):
        nothing, hint = identity(op["function"], compute), op.node or result.name
        join_some = functools.partial(build.reduce, function, hint=hint)
        parts, _ = parts_of_launched(context, joined, [nothing] * len(joined), hint, join_some)
        joined = [in_pairs(build, function, own, hint) for own in parts]
    elif is_one and counts[waves[0]] > _FEW_WAVES:
        joined = _by_lanes(context, joined, waves[0], function, op.node or result.name)
    elif waves or far:
        joined = _waves(context, joined, waves, far, function, op.node or result.name)
    if op.get("signal"):
        parts = parts_of_cluster(context, op, joined, waves, lanes_alike=are_alike)
        joined = [in_pairs(build, function, own, op.node or result.name) for own in parts]
    if op["divided"]:
        count = build.value("count", DTYPES["i32"], 1)
        build.add("coordinates", (), (count,), places=(op["size"],))
        counts = {n: build.broadcast(build.cast(count, compute), n) for n in {one.vector.elements for one in joined}}
        joined = [build.elementwise("div", one, counts[one.vector.elements], hint=result.name) for one in joined]
    if init:
        start = [build.cast(part, compute, result.name) for part in context.fragments[init[0].name]]
        together = join or functools.partial(build.elementwise, function, hint=result.name)
        joined = [together(*both) for both in zip(start, joined, strict=True)]
    context.fragments[result.name] = tuple(build.cast(part, dtype, result.name) for part in joined)


def _in_words(op: Op, context: ThreadContext) -> bool:
    """Whether the machine joins the elements of two words at once, as exactly as in f32."""
    dtype, is_extreme = op.operands[0].tile.dtype, op["function"] in ("maximum", "minimum")
    return is_extreme and not op.get("skips_nan") and dtype.name in context.machine.packed_extremes


def _joined_to_word(build: ThreadBuilder, function: str, value: Value, hint: str) -> Value:
    """Halves of a fragment joined to each other, until there is one word."""
    while (count := value.vector.elements) > max(2, 32 // value.vector.dtype.bits) and count % 2 == 0:
        halves = (build.slice(value, start, count // 2, hint) for start in (0, count // 2))
        value = build.elementwise(function, *halves, hint=hint)
    return value


def identity(function: str, dtype: DType) -> float | int:
    """The number that joins with any other without changing it."""
    number = _IDENTITY[function]
    if dtype.is_float:
        return float(number)
    if isinstance(number, int):
        return number
    low, count = (0 if dtype.kind == "uint" else -(2 ** (dtype.bits - 1))), 2**dtype.bits
    return low if number < 0 else low + count - 1


def _whole_accesses(layout: Layout, dim: str, origin: Expr, size: Expr) -> tuple[Expr, ...]:
    """Where each fragment starts, if all of it along ``dim`` is inside of the tensor or nothing: then it may be joined
    before what lies beyond is left out."""
    count = layout.fragment_elements
    places = [origin + place[dim] for place in layout.coordinates()]
    starts = tuple(places[::count])
    is_whole = (
        not size.divisor % count
        and all(not start.divisor % count and start.low is not None and start.low >= 0 for start in starts)
        and all(place - starts[at // count] == const(at % count) for at, place in enumerate(places))
    )
    return starts if is_whole else ()


def padded(
    context: ThreadContext,
    fragments: Sequence[Value],
    layout: Layout,
    dim: str,
    origin: Expr,
    size: Expr,
    number: float | int,
) -> list[Value]:
    """What lies beyond the tensor becomes ``number``: run by run of registers that are evenly spaced along ``dim``."""
    build, count = context.build, layout.fragment_elements
    places = [origin + place[dim] for place in layout.coordinates()]
    padded: list[Value] = []
    for at, fragment in enumerate(fragments):
        inside = places[at * count : (at + 1) * count]
        parts: list[Value] = []
        start = 0
        while start < count:
            stride = (inside[start + 1] - inside[start]) if start + 1 < count else const(0)
            end = start + 1
            while end < count and inside[end] - inside[end - 1] == stride:
                end += 1
            part = build.slice(fragment, start, end - start, fragment.name)
            low = inside[start].low
            if low is not None and low < 0:  # a shifted tile begins in front of its row
                part = build.pad(part, -inside[start], -stride.value, const(1), number)
            parts.append(build.pad(part, inside[start], stride.value, size, number))
            start = end
        padded.append(build.pack(parts, fragment.name))
    return padded


def fragments_along(layout: Layout, fragments: Sequence[Value], dim: str) -> list[list[Value]]:
    """Those that differ in their place along ``dim`` alone, together."""
    groups: dict[tuple[int, ...], list[Value]] = {}
    counters = itertools.product(*(range(axis.extent) for axis in layout.repeats))
    for place, fragment in zip(counters, fragments, strict=True):
        key = tuple(number for number, axis in zip(place, layout.repeats, strict=True) if not axis.stride(dim))
        groups.setdefault(key, []).append(fragment)
    return list(groups.values())


def registers_joined(
    context: ThreadContext,
    fragments: Sequence[Value],
    layout: Layout,
    dim: str,
    function: str,
    hint: str,
    join: _Join | None,
    run: int = _RUN,
) -> list[Value]:
    """One value per fragment of the layout's projection: everything that one lane has along ``dim`` joined.

    ``join``: of two fragments, where that is a sum of products and not ``function`` of both.  ``run``: so many are
    joined in one chain.
    """
    build, inner = context.build, layout.axes[len(layout.repeats) :]
    whole = [_in_runs(build, function, parts, hint, join, run) for parts in fragments_along(layout, fragments, dim)]
    along = [bool(axis.stride(dim)) for axis in inner]
    if not any(along):
        return whole
    if all(along):
        return [build.sum_of(value, hint) if join else build.reduce(function, value, hint) for value in whole]
    return [_inner(context, value, [axis.extent for axis in inner], along, function, hint) for value in whole]


def _inner(
    context: ThreadContext, value: Value, extents: Sequence[int], along: Sequence[bool], function: str, hint: str
) -> Value:
    """The same inside of a fragment, some of whose axes are along the dim; the last ones of them at once."""
    build, kept = context.build, dict[tuple[int, ...], list[Value]]()
    last = len(extents) - sum(1 for _ in itertools.takewhile(bool, reversed(along)))
    run = math.prod(extents[last:])
    for number, place in enumerate(itertools.product(*map(range, extents[:last]))):
        key = tuple(index for index, gone in zip(place, along, strict=False) if not gone)
        kept.setdefault(key, []).append(build.slice(value, number * run, run, hint))
    joined = (_in_runs(build, function, parts, hint) for parts in kept.values())
    return build.pack([build.reduce(function, part, hint) for part in joined], hint)


def _waves(
    context: ThreadContext,
    values: Sequence[Value],
    waves: Sequence[str],
    bits: Sequence[int],
    function: str,
    hint: str,
) -> list[Value]:
    """All waves, and lanes out of reach, join what those along the dim have."""
    there = parts_of_waves(context, values, waves, hint, bits)
    return [in_pairs(context.build, function, parts, hint) for parts in there]


def _by_lanes(context: ThreadContext, values: Sequence[Value], wave: str, function: str, hint: str) -> list[Value]:
    """The same of many waves whose lanes are alike: each lane reads what one wave has, and lanes join that."""
    build, count = context.build, dict(context.kernel.waves)[wave]
    lanes, joined = lanes_of_parts(count), list[Value]()
    for part in part_of_each_lane(context, values, wave, hint):
        if count < lanes:
            place = context.kernel.symbol("lane") % lanes
            part = build.pad(part, place, 0, const(count), identity(function, part.vector.dtype))
        joined += butterfly(context, function, [part], bits_of_parts(count), hint)
    return joined


def _in_runs(
    build: ThreadBuilder, function: str, parts: Sequence[Value], hint: str, join: _Join | None = None, run: int = _RUN
) -> Value:
    """All parts joined: runs of neighbours one after another, which takes the fewest registers, then runs in pairs."""
    both: _Join = join or functools.partial(build.elementwise, function, hint=hint)

    runs = [functools.reduce(both, parts[at : at + run]) for at in range(0, len(parts), run)]
    return in_pairs(build, function, runs, hint)


def in_pairs(build: ThreadBuilder, function: str, parts: Sequence[Value], hint: str) -> Value:
    """All parts joined, pairs of neighbours first: few roundings of each, and short chains."""
    left = list(parts)
    while len(left) > 1:
        pairs = itertools.zip_longest(left[::2], left[1::2])
        left = [build.elementwise(function, one, two, hint=hint) if two else one for one, two in pairs]
    return left[0]


def reference(statement: Reduce, context: ReferenceContext) -> None:
    import torch

    dims, function = context.dims[statement.values[0]], statement.reduction.function
    joins = {"add": torch.add, "mul": torch.mul, "maximum": torch.maximum, "minimum": torch.minimum}
    kept = tuple(dim for dim in dims if dim not in statement.along)
    result: torch.Tensor | None = None
    if statement.init is not None:
        own = context.dims[statement.init]
        result = context.names[statement.init].permute([own.index(dim) for dim in kept])
    for name in statement.values:
        left, value = list(context.dims[name]), context.names[name]
        if statement.reduction.of_flags:
            value = value.to(torch.int32)
        for dim in statement.along:
            axis = left.index(dim)
            left.remove(dim)
            count = value.shape[axis]
            value = _whole(value, axis, function)
            value = value / count if statement.reduction.divided else value
        value = value.permute([left.index(dim) for dim in kept])
        if statement.reduction.of_flags:
            value = value > 0
        if result is None:
            result = value
        elif statement.reduction.of_flags:
            result = result | value if function == "maximum" else result & value
        else:
            result = joins[function](result, value)
    assert result is not None
    context.define(statement.name, kept, result)


def _whole(value: torch.Tensor, axis: int, function: str) -> torch.Tensor:
    import torch

    if value.shape[axis] == 0 and function in ("maximum", "minimum"):
        limits = torch.finfo(value.dtype) if value.is_floating_point() else torch.iinfo(value.dtype)
        number = (limits.min, limits.max)[function == "minimum"]
        number = float("inf") * (1 if number > 0 else -1) if value.is_floating_point() else number
        shape = [extent for at, extent in enumerate(value.shape) if at != axis]
        return torch.full(shape, number, dtype=value.dtype)
    whole = {"add": torch.sum, "mul": torch.prod, "maximum": torch.amax, "minimum": torch.amin}[function]
    return whole(value, axis).to(value.dtype)
