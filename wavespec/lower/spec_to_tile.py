"""A resolved kernel goes in; a tile kernel, with its distribution, comes out."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from wavespec.diagnostics import WavespecError, Where
from wavespec.ir.dtype import DTYPES
from wavespec.ir.expr import Expr, const, symbol
from wavespec.ir.kernel import Distribution, Kernel, LoopSchedule, Memory, Op, Split, WaveRoles
from wavespec.ir.rewriting import without_unused
from wavespec.ir.saturating import plus, times
from wavespec.ir.strided import alignment_of, most_alignment, offset_of, stride_of, symbol_of
from wavespec.ir.tile_ops import ITERATE, MMA
from wavespec.ir.tile_order import COUNT, INDEX
from wavespec.lower.base import fresh_names
from wavespec.lower.expression_to_index import ExpressionToIndex
from wavespec.lower.tile_properties import is_of_tiles
from wavespec.ops import to_tile
from wavespec.ops.contexts import TileContext
from wavespec.ops.dim_sizes import dim_sizes, own_sizes
from wavespec.ops.iterate import counted
from wavespec.ops.scalar import scalar_places
from wavespec.ops.scalar import to_tile as scalar_to_tile
from wavespec.schema.checking import permutations
from wavespec.schema.language.expressions import Call, Compare, Expression, Name
from wavespec.schema.language.models import Schedule
from wavespec.schema.resolved import ResolvedKernel, Tiles

ENSURES = (is_of_tiles,)
"""What the first pass may build on."""

_MOST_LOOPS_AND_PRODUCTS = 64
"""Loops and matrix products of one graph; lowering, and the compilers behind it, take long beyond."""


class KernelTooLarge(WavespecError, code="kernel-too-large"):
    def __init__(self, where: Where, count: int) -> None:
        super().__init__(
            where,
            f"The graph has {count} loops and matrix products; one kernel has at most {_MOST_LOOPS_AND_PRODUCTS}.",
            hints=["Split it into several kernels."],
        )


def spec_to_tile(resolved: ResolvedKernel) -> Kernel:
    """Lower a kernel, resolved for its target, to the tile level.

    Raises:
        WavespecError: a place that no kernel can compute, or a graph beyond the limits.
    """
    computation = resolved.computation
    sizes = dim_sizes(resolved)
    own = own_sizes(resolved)
    named = _named_strides(resolved)
    memories = tuple(
        Memory(
            name,
            DTYPES[tensor.dtype],
            tensor.shape,
            tuple(sizes[dim] for dim in tensor.shape),
            "global",
            tensor.role,
            staged=tensor.space == "shared",
            zeroed=name in resolved.zeroed,
            **_placement(resolved, name, sizes | named),
            span=tensor.span,
        )
        for name, tensor in sorted(computation.tensors.items(), key=lambda item: item[1].role == "output")
    )
    scalars = scalar_places(resolved.scalars)
    placed = [place for memory in memories if memory.start is not None for place in (memory.start, *memory.strides)]
    known = [one for place in placed for one in place.walk() if one.kind == "symbol"]
    symbols = tuple(dict.fromkeys(size for size in (*own.values(), *known) if not size.is_const))
    empty = Kernel(computation.name, "tile", resolved.target, symbols, memories, (), flushes=resolved.flushes)
    tensors = {name: (tensor.shape, str(tensor.dtype)) for name, tensor in computation.tensors.items()}
    expressions = ExpressionToIndex(resolved.values, sizes)
    bounds, params = _bounds(resolved, expressions, scalars), dict(computation.params)
    names, fast, always = fresh_names(empty), resolved.fast_math, _always(resolved)
    streamed = frozenset(name for name, tensor in computation.tensors.items() if tensor.space == "streamed")
    context = TileContext(names, to_tile, tensors, sizes, expressions, bounds, params, scalars, fast, streamed, always)
    for name, scalar in resolved.scalars.items():
        scalar_to_tile(name, scalar, context)
    for statement in computation.statements:
        to_tile(statement, context)
    for tiles in resolved.workgroup:
        _end_tiles(tiles, context)
    body = without_unused(context.ops, _only_makes_values)
    shaped = {dim for tensor in computation.tensors.values() for dim in tensor.shape}
    tiled = {dim for op in body for one in op.walk() for value in one.results for dim in value.tile.dims}
    laid_out = {one for tensor in computation.tensors.values() for s in tensor.promised_strides for one in s.names()}
    unnamed = {dim for dim, size in sizes.items() if size is not own[dim]} - shaped - tiled - laid_out
    others = tuple((dim, size) for dim, size in sizes.items() if dim not in shaped | unnamed)
    arguments = tuple((name, DTYPES[scalar.dtype]) for name, scalar in computation.scalars.items())
    symbols = tuple(symbol for symbol in symbols if symbol not in [own[dim] for dim in unnamed])
    distribution = _distribution(resolved)
    kernel = replace(empty, symbols=symbols, body=body, distribution=distribution, sizes=others, scalars=arguments)
    mapped = {op["memory"] for op in kernel.walk() if op.get("memory") and op.get("at")}
    kernel = replace(kernel, memories=tuple(replace(m, mapped=True) if m.name in mapped else m for m in memories))
    used = (node for op in kernel.walk() for expr in op.expressions() for node in expr.walk())
    kernel = kernel.with_symbols(*context.symbols, *dict.fromkeys(node for node in used if node.kind == "symbol"))
    large = [op for one in context.ops for op in one.walk() if op.is_(ITERATE, MMA)]
    if len(large) > _MOST_LOOPS_AND_PRODUCTS:
        raise KernelTooLarge(large[_MOST_LOOPS_AND_PRODUCTS].span, len(large))
    return kernel


def _always(resolved: ResolvedKernel) -> frozenset[Expression]:
    """What holds in every tile: a walk over tiles that end where values say has none behind there."""
    ends = ((tiles.dim, tiles.end[0]) for tiles in resolved.workgroup if tiles.end)
    return frozenset(Compare("<", Call("start", (Name(dim),)), end) for dim, end in ends)


def _end_tiles(tiles: Tiles, context: TileContext) -> None:
    """Say where the tiles of a dim end, where values do."""
    if tiles.end is None:
        return
    expression, where = tiles.end
    values = context.bound(expression, tiles.span)
    end = context.expressions.place(expression, where, values)
    context.add("tiles_end", (), (), tiles.span, dim=tiles.dim, extent=end)


def _only_makes_values(op: Op) -> bool:
    return bool(op.results) and op.region is None


def _bounds(
    resolved: ResolvedKernel, expressions: ExpressionToIndex, scalars: Mapping[str, Expr]
) -> dict[str, dict[str, Expr]]:
    """Where the loops over each dim start and end, as far as their tiles say so."""
    bounds: dict[str, dict[str, Expr]] = {}
    numbers = {name for number in scalars.values() for name in number.symbols}
    for one in resolved.loops:
        if one.start is None and one.count is None:
            continue
        start = const(0) if one.start is None else expressions.place(*one.start, scalars)
        bounds[one.dim] = {"lower": start}
        if one.count is not None:
            count = expressions.place(*one.count, scalars)
            extent = times(plus(start // const(one.tile), count), const(one.tile))
            bounds[one.dim]["extent"] = counted(extent, [extent] if extent.symbols & numbers else [])
            bounds[one.dim]["stride"] = const(1)  # the tiles that are counted are these
    return bounds


def _named_strides(resolved: ResolvedKernel) -> dict[str, Expr]:
    """The names of strides, each the stride of the first tensor with it, with what is promised of all that have it."""
    tensors, found = resolved.computation.tensors, dict[str, Expr]()
    for name, (owner, dim) in resolved.computation.spec.named_strides.items():
        promised = resolved.promised[name]
        having = (other for other, one in tensors.items() if Name(name) in one.promised_strides)
        common = (resolved.promised[alignment_of(other)].multiple_of for other in having)
        number = symbol_of(stride_of(owner, dim))
        found[name] = symbol(number, promised.min, promised.max, math.lcm(promised.multiple_of, *common))
    return found


def _placement(resolved: ResolvedKernel, name: str, sizes: Mapping[str, Expr]) -> dict[str, Any]:
    """``start`` and ``strides`` of a tensor that may have any, with what is promised of them; ``sizes``: of dims, and
    what names of strides are."""
    tensor = resolved.computation.tensors[name]
    if not tensor.is_strided:
        return {}
    promised, room = resolved.promised, most_alignment(DTYPES[tensor.dtype].bytes)
    common = promised[alignment_of(name)].multiple_of
    unit = math.gcd(common, room)
    start = symbol(symbol_of(offset_of(name)), 0, room - unit, unit) if unit < room else const(0)
    if tensor.promised_strides:
        expressions = ExpressionToIndex(resolved.values, sizes)
        places = [
            expressions.place(stride, tensor.where("strides", axis), {})
            for axis, stride in enumerate(tensor.promised_strides)
        ]
        return {"start": start, "strides": tuple(places)}
    strides = (promised[stride_of(name, dim)] for dim in tensor.shape[:-1])
    symbols = (
        symbol(symbol_of(stride_of(name, dim)), stride.min, stride.max, math.lcm(stride.multiple_of, common))
        for dim, stride in zip(tensor.shape[:-1], strides, strict=True)
    )
    return {"start": start, "strides": (*symbols, *[const(1)][: len(tensor.shape)])}


def _distribution(resolved: ResolvedKernel) -> Distribution:
    schedule, expressions = resolved.schedule, ExpressionToIndex(resolved.values, {})

    def splits(tiles: tuple[Tiles, ...]) -> tuple[Split, ...]:
        return tuple(Split(one.dim, one.tile, one.axis, _order(one, expressions), one.span) for one in tiles)

    workgroups = schedule.workgroups
    return Distribution(
        workgroup=splits(resolved.workgroup),
        loops=splits(resolved.loops),
        waves=splits(resolved.waves),
        vectors=splits(resolved.vectors),
        instruction=resolved.instruction,
        stages=schedule.stages,
        group=workgroups.group or 0 if workgroups else 0,
        chiplets=workgroups.chiplets if workgroups else None,
        persistent=workgroups.persistent if workgroups else False,
        workers=workgroups.count or 0 if workgroups else 0,
        cluster=workgroups.cluster if workgroups else 1,
        split=workgroups.split if workgroups else 1,
        last_round=workgroups.last_round if workgroups else 1,
        resident=workgroups.resident if workgroups else 1,
        registers=workgroups.registers if workgroups else 0,
        fitted=workgroups.fitted if workgroups else False,
        roles=_roles(schedule),
        workgroups_span=schedule.span_of("workgroups"),
        group_span=workgroups.key_span_of("group") if workgroups else None,
        chiplets_span=workgroups.key_span_of("chiplets") if workgroups else None,
        is_for_target=resolved.is_for_target,
        auto=schedule.auto or "",
        schedules=_schedules(schedule),
        instruction_span=resolved.instruction_span,
        stages_span=schedule.span_of("stages"),
        is_planned=resolved.computation.spec.is_planned,
    )


def _order(tiles: Tiles, expressions: ExpressionToIndex) -> Expr | None:
    """Which tile comes at which place, where the spec says so."""
    names: Mapping[str, Expr] = {permutations.INDEX: INDEX, permutations.COUNT: COUNT}
    return None if tiles.order is None else expressions.place(*tiles.order, names)


def _schedules(schedule: Schedule) -> tuple[LoopSchedule, ...]:
    return tuple(
        LoopSchedule(
            name,
            loop.stages or schedule.stages,
            loop.auto or schedule.auto or "",
            tuple(loop.nodes.items()),
            loop.clusters,
            loop.buffers or 0,
            loop.unroll or 0,
            functools.partial(schedule.where, "loops", name),
            functools.partial(schedule.where_key, "loops", name),
        )
        for name, loop in schedule.loops.items()
    )


def _roles(schedule: Schedule) -> WaveRoles:
    waves = schedule.waves
    if waves is None:
        return WaveRoles()
    registers = (waves.registers.producer, waves.registers.consumer) if waves.registers else (0, 0)
    return WaveRoles(
        waves.producers,
        waves.order,
        registers,
        schedule.span_of("waves"),
        waves.span_of("registers"),
        tuple(waves.buffers.items()),
        waves.where_key,
        waves.early_wait,
    )
