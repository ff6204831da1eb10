"""A spec resolved for one target goes in; a tile kernel, with its distribution, comes out."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from wavespec.diagnostics import WavespecError, Where
from wavespec.ir.dtype import DTYPES
from wavespec.ir.expr import Expr, const, symbol
from wavespec.ir.kernel import Distribution, Kernel, LoopSchedule, Memory, Split, WaveRoles
from wavespec.ir.names import size_name
from wavespec.ir.tile_order import COUNT, INDEX
from wavespec.lower.base import fresh_names
from wavespec.lower.expression_to_index import ExpressionToIndex
from wavespec.ops import to_tile
from wavespec.ops.contexts import TileContext
from wavespec.schema import permutations
from wavespec.schema.check_graph import plain_graph
from wavespec.schema.check_schedules import is_for_one_target
from wavespec.schema.conditions import narrowed_dims
from wavespec.schema.constraints import Assume, Hardware, HardwareSettings, Tiling, Wave, Workgroup
from wavespec.schema.expressions import Expression
from wavespec.schema.models import Dim, KernelSpec, Schedule
from wavespec.schema.partly_written import partly_written
from wavespec.schema.resolve import constant_values, evaluate_constant

LARGEST_EXTENT = 2**31 - 2**16
"""Sizes of dims arrive in kernels as 32-bit integers; the room above keeps a size plus a tile from overflowing.  Calls
with larger ones are refused (``LARGEST_SIZE`` of ``runtime/checks.py``)."""


_MOST_LOOPS_AND_PRODUCTS = 64
"""Loops and matrix products of one graph; lowering, and the compilers behind it, take long beyond."""


class KernelTooLarge(WavespecError, code="kernel-too-large"):
    def __init__(self, where: Where, count: int) -> None:
        super().__init__(
            where,
            f"The graph has {count} loops and matrix products; one kernel has at most {_MOST_LOOPS_AND_PRODUCTS}.",
            hints=["Split it into several kernels."],
        )


def spec_to_tile(spec: KernelSpec, target: str) -> Kernel:
    """Lower a checked spec (already resolved for ``target``) to the tile level.

    Raises:
        WavespecError: a parameter or tile without a constant value, or a graph beyond the limits.
    """
    dims, params = _promised(spec), constant_values(spec)
    sizes = {name: _size(spec, dim, name, params) for name, dim in dims.items()}
    started = partly_written(spec)
    memories = tuple(
        Memory(
            name,
            DTYPES[tensor.dtype],
            tensor.shape,
            tuple(sizes[dim] for dim in tensor.shape),
            "global",
            tensor.role,
            staged=tensor.space == "shared",
            streamed=tensor.space == "streamed",
            zeroed=name in started,
            span=tensor.span,
        )
        for name, tensor in sorted(spec.tensors.items(), key=lambda item: item[1].role == "output")
    )
    empty = Kernel(spec.name, "tile", target, tuple(s for s in sizes.values() if not s.is_const), memories, ())
    tensors = {name: (tensor.shape, str(tensor.dtype)) for name, tensor in spec.tensors.items()}
    expressions = ExpressionToIndex(params, sizes)
    plain = {name: params[name] for name in spec.params}
    context = TileContext(fresh_names(empty), to_tile, tensors, sizes, expressions, _bounds(spec, expressions), plain)
    for statement in plain_graph(spec)[0]:
        to_tile(statement, context)
    shaped = {dim for tensor in spec.tensors.values() for dim in tensor.shape}
    others = tuple((dim, size) for dim, size in sizes.items() if dim not in shaped)
    kernel = replace(empty, body=tuple(context.ops), distribution=_distribution(spec), sizes=others)
    mapped = {op["memory"] for op in kernel.walk() if op.get("memory") and op.get("at")}
    kernel = replace(kernel, memories=tuple(replace(m, mapped=True) if m.name in mapped else m for m in memories))
    used = (node for op in kernel.walk() for expr in op.expressions() for node in expr.walk())
    kernel = kernel.with_symbols(*context.symbols, *dict.fromkeys(node for node in used if node.kind == "symbol"))
    large = [op for op in kernel.walk() if op.name in ("iterate", "mma")]
    if len(large) > _MOST_LOOPS_AND_PRODUCTS:
        raise KernelTooLarge(large[_MOST_LOOPS_AND_PRODUCTS].span, len(large))
    return kernel


def _bounds(spec: KernelSpec, expressions: ExpressionToIndex) -> dict[str, dict[str, Expr]]:
    """Where the loops over each dim start and end, as far as constraints say so."""
    bounds: dict[str, dict[str, Expr]] = {}
    for one in spec.constraints:
        if not isinstance(one, Tiling) or (one.start is None and one.count is None):
            continue
        start = const(0) if one.start is None else expressions.place(one.start, one.where("start"), {})
        bounds[one.dim] = {"lower": start}
        if one.count is not None:
            tile = expressions.place(one.tile, one.where("tile"), {})
            count = expressions.place(one.count, one.where("count"), {})
            bounds[one.dim]["extent"] = (start // tile + count) * tile
    return bounds


def _promised(spec: KernelSpec) -> dict[str, Dim]:
    """The dims with what assumptions promise of them; those that leave one size only are checked, no more."""
    conditions = [one.condition for one in spec.constraints if isinstance(one, Assume)]
    narrowed = narrowed_dims(spec.dims, conditions, constant_values(spec))
    if isinstance(narrowed, Expression):
        return dict(spec.dims)
    kept = {name for name, dim in narrowed.items() if dim.min == dim.max}
    return {name: dim if name in kept else narrowed[name] for name, dim in spec.dims.items()}


def _size(spec: KernelSpec, dim: Dim, name: str, values: Mapping[str, int]) -> Expr:
    if dim.value is not None:
        return const(dim.value)
    if dim.equals is not None and all(name in values for name in dim.equals.names()):
        return const(int(evaluate_constant(spec, dim.equals, spec.where("dims", name, "equals"), values)))
    return symbol(
        size_name(name), dim.min, LARGEST_EXTENT if dim.max is None else min(dim.max, LARGEST_EXTENT), dim.multiple_of
    )


def _distribution(spec: KernelSpec) -> Distribution:
    values = constant_values(spec)

    def split(constraint: Any, axis: int = 0) -> Split:
        tile = evaluate_constant(spec, constraint.tile, constraint.where("tile"), values)
        return Split(constraint.dim, int(tile), axis, _order(constraint, values), constraint.span_of("tile"))

    hardware = next((c for c in spec.constraints if isinstance(c, Hardware)), None)
    schedule = spec.schedule or Schedule()
    return Distribution(
        workgroup=tuple(split(c, c.axis) for c in spec.constraints if isinstance(c, Workgroup)),
        loops=tuple(split(c) for c in spec.constraints if isinstance(c, Tiling)),
        waves=tuple(split(c, c.axis) for c in spec.constraints if isinstance(c, Wave)),
        vectors=_vectors(spec, hardware.settings, values) if hardware else (),
        instruction=(hardware.settings.mma if hardware else None) or "auto",
        stages=spec.schedule.stages if spec.schedule else 1,
        group=schedule.workgroups.group or 0 if schedule.workgroups else 0,
        chiplets=schedule.workgroups.chiplets if schedule.workgroups else None,
        persistent=schedule.workgroups.persistent if schedule.workgroups else False,
        workers=schedule.workgroups.count or 0 if schedule.workgroups else 0,
        cluster=schedule.workgroups.cluster if schedule.workgroups else 1,
        split=schedule.workgroups.split if schedule.workgroups else 1,
        roles=_roles(schedule),
        workgroups_span=schedule.span_of("workgroups"),
        group_span=schedule.workgroups.key_span_of("group") if schedule.workgroups else None,
        chiplets_span=schedule.workgroups.key_span_of("chiplets") if schedule.workgroups else None,
        is_for_target=is_for_one_target(spec),
        auto=schedule.auto or "",
        schedules=_schedules(schedule),
        instruction_span=hardware.settings.span_of("mma") if hardware else None,
        stages_span=spec.schedule.span_of("stages") if spec.schedule else None,
    )


def _order(constraint: Any, values: dict[str, int]) -> Expr | None:
    """Which tile a constraint has at which place, where it says so."""
    order = getattr(constraint, "order", None)
    if order is None:
        return None
    names = {permutations.INDEX: INDEX, permutations.COUNT: COUNT}
    return ExpressionToIndex(values, {}).place(order, constraint.where("order"), names)


def _vectors(spec: KernelSpec, settings: HardwareSettings, values: dict[str, int]) -> tuple[Split, ...]:
    return tuple(
        Split(
            dim,
            int(evaluate_constant(spec, count, settings.where("vector", dim), values)),
            span=settings.span_of("vector", dim),
        )
        for dim, count in settings.vector.items()
    )


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
    return WaveRoles(waves.producers, waves.order, registers, schedule.span_of("waves"), waves.span_of("registers"))
