"""The plain spec of a case goes in; the kernels that make sums which its loops carry, and the spec that reads these,
come out: a product with sums of its rows and columns beside it would make them again in every tile, and so would one
with a product of the same rows and few columns.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Final, cast

from wavespec.schema.checking.check_graph import plain_graph
from wavespec.schema.kernels_of_parts import needed_for
from wavespec.schema.language.base import Position, SpecModel
from wavespec.schema.language.constraints import AnyConstraint, Tiling, Wave, Workgroup
from wavespec.schema.language.expression_parser import parse_expression
from wavespec.schema.language.index_parser import parse_index
from wavespec.schema.language.models import KernelSpec, Schedule, Tensor, WaveSchedule, WorkgroupSchedule
from wavespec.schema.made_kernels import free_name, made_name, plain_kernel, unfolded, with_sizes, words_of
from wavespec.schema.ops import AnyOp, Bitcast, Cast, Formula, Iterate, Mma, Read, Reduce, Register, Size, Write, every
from wavespec.schema.ops.base import EffectOp, ValueType
from wavespec.schema.ops.elementwise import ELEMENTWISE
from wavespec.schema.renamed_dims import dims_along
from wavespec.schema.unused_ops import without_unused

_OF_STEP: Final = (Read, Formula, Cast, Bitcast, Size, Reduce, *ELEMENTWISE)
IN_FRONT: Final = (Register, Formula, Cast, Size, *ELEMENTWISE)
"""What a sum may be made of, in its loop and in front of it; so may a product."""
_ALONG: Final = {"rows": 64, "rows_wave": 4, "steps": 32}
_ACROSS: Final = {"rows": 256, "rows_wave": 64, "steps": 16}
"""Tiles of sums along what lies side by side, and across it: those of tables of plans for loops that only make sums."""
_FEW: Final = 64
"""Columns of a product, all of which a workgroup has."""
_OF_PRODUCT: Final = {"rows": 64, "steps": 128, "stages": 5, "split": 4}
"""Tiles of a product of few columns beside one with waves that only copy: that of a table of plans for few tiles, whose
steps workgroups share out."""
_ROWS_BY_LANES: Final = 64
"""The same beside others, whose machines may have no such waves: a step is one of theirs."""
_LEAST_COLUMNS: Final = 16
LAST_AXIS: Final = 4
"""Of a grid."""


@dataclass(frozen=True, slots=True)
class _Sum:
    """A sum, of elements or of products, with the loop that carries it, what a step makes it of, and the ops in front
    that it uses."""

    name: str
    loop: Iterate
    body: tuple[AnyOp, ...]
    around: tuple[AnyOp, ...]


def sums_beside(spec: KernelSpec) -> dict[str, tuple[str, ...]]:
    """Sums, and the like, that loops of a graph with products carry, with dims of one side of each product alone; with
    the dims of each in order. ``spec``: with tiles for its loops."""
    types = plain_graph(spec)[1]
    sides = [{*types[op.lhs].dims, *types[op.rhs].dims} for op in every(Mma, spec.graph)]
    names = [(name, loop.dim) for loop in spec.graph if isinstance(loop, Iterate) for name in loop.carry]
    known = sums_that_can_be_made(spec, [name for name, _ in names])
    return {
        name: known[name]
        for name, dim in names
        if name in known and sides and all({*known[name]} < side - {dim} for side in sides)
    }


def products_beside(spec: KernelSpec) -> dict[str, tuple[str, ...]]:
    """Products of few columns that loops carry beside another one of the same operand, with the dims of each in order.
    ``spec``: with tiles for its loops."""
    types, found = plain_graph(spec)[1], list[str]()
    for loop in spec.graph:
        products = [op for op in loop.body if isinstance(op, Mma)] if isinstance(loop, Iterate) else []
        few = [op for op in products if _few_columns(spec, types, op)]
        shared = {name for op in products if op not in few for name in (op.lhs, op.rhs)}
        found += [op.name for op in few if not shared.isdisjoint((op.lhs, op.rhs))]
    return sums_that_can_be_made(spec, found)


def _few_columns(spec: KernelSpec, types: Mapping[str, ValueType], op: Mma) -> tuple[str, ...]:
    """The columns that an operand gives a product beside the rows of the other one, where they are few whatever a call
    says; else none. Where those of both are few, the fewer ones."""
    own, found = types[op.acc].dims, dict[tuple[str, ...], int]()
    for operand in (op.lhs, op.rhs):
        columns = tuple(dim for dim in types[operand].dims if dim in own)
        sizes = [spec.dims[dim].value or spec.dims[dim].max or _FEW + 1 for dim in columns]
        if 0 < len(columns) < len(own) and all(size <= _FEW for size in sizes):
            found[columns] = prod(sizes)
    return min(found, key=lambda columns: found[columns], default=())


def sums_that_can_be_made(spec: KernelSpec, names: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Those of the names that are sums which a kernel of its own can make, with their dims in order."""
    types = plain_graph(spec)[1]
    found = {name: types[f"{one.loop.name}.{name}"].dims for name in names if (one := _sum_of(spec, name))}
    return {name: dims for name, dims in found.items() if dims}


def with_sums_before(spec: KernelSpec) -> tuple[tuple[KernelSpec, ...], KernelSpec]:
    """The kernels that make the sums which the schedule materializes, each tensor called as the sum with `_made` behind
    it, and the spec that reads them."""
    schedule = spec.schedule
    asked = sums_that_can_be_made(spec, schedule.materialize) if schedule is not None else {}
    if schedule is None or not asked:
        return (), spec
    types, graph, kernels = plain_graph(spec)[1], spec.graph, list[KernelSpec]()
    made = dict[str, Tensor]()
    for name, own in asked.items():
        one = _sum_of(spec, name)
        assert one is not None
        dtype = types[f"{one.loop.name}.{name}"].dtype
        tensor = Tensor(shape=schedule.materialize[name], dtype=dtype, role="output")
        kernel = _making(spec, one, tensor, own)
        span = schedule.key_span_of("materialize", name)
        kernel.was_written_at({(): Position(span)} if span else {})
        kernels.append(kernel)
        made[made_name(spec, name)] = tensor.model_copy(update={"role": "input"})
        summing = one.loop.model_copy(update={"body": one.body})
        read_name = free_name(spec, f"{one.loop.name}_{one.name}")
        reading = Read(name=read_name, tensor=made_name(spec, one.name), dims=own)
        graph = graph_reading(graph, summing, one.name, reading)
    read = {op.tensor for op in every(Read, graph)}
    kept = {name: one for name, one in spec.tensors.items() if one.role != "input" or name in read}
    left = {name: dims for name, dims in schedule.materialize.items() if name not in asked}
    update: dict[str, Any] = {
        "dims": unfolded(spec.dims),
        "graph": graph,
        "tensors": {**made, **with_sizes(spec.dims, {**made, **kept}, spec.tensors), **kept},
        "schedule": schedule.model_copy(update={"materialize": left}),
    }
    return (*kernels,), spec.model_copy(update=update)


def _sum_of(spec: KernelSpec, name: str) -> _Sum | None:
    """The sum of this name, if a loop carries nothing else under it, and nothing else that the loop carries is needed
    for it."""
    loops = [op for op in spec.graph if isinstance(op, Iterate) and name in op.carry]
    named = [op for op in (*every(Reduce, spec.graph), *every(Mma, spec.graph)) if op.name == name]
    if len(loops) != 1 or len(named) != 1:
        return None
    (loop,), (op,) = loops, named
    bounds = (loop.start, loop.end, loop.step, loop.until)
    uses = sum(words_of(one).count(name) for one in loop.body)
    if op not in loop.body or not _sums_up(spec, op, loop, name) or uses != 1:
        return None
    alone = loop.model_copy(update={"carry": {name: loop.carry[name]}})
    body = needed_for(alone, alone.carry)
    used = {word for one in body for word in words_of(one)}
    around = in_front(spec, loop, {loop.carry[name], *used})
    read = [one for one in body if isinstance(one, Read)]
    is_plain = all(isinstance(one, _OF_STEP) for one in body if one != op)
    tensors = [spec.tensors[one.tensor] for one in read]
    is_plain &= all(map(dims_along, read, (one.shape for one in tensors))) and all(
        one.role == "input" for one in tensors
    )
    if any(bound is not None for bound in bounds) or not is_plain or used & loop.carry.keys() - {name}:
        return None
    return _Sum(name, loop, body, around) if all(isinstance(one, IN_FRONT) for one in around) else None


def _sums_up(spec: KernelSpec, op: Reduce | Mma, loop: Iterate, name: str) -> bool:
    if isinstance(op, Mma):
        is_beside = any(isinstance(one, Mma) and one != op for one in loop.body)
        return is_beside and op.acc == name and op.scales is None and bool(_few_columns(spec, plain_graph(spec)[1], op))
    return op.init == name and op.along == (loop.dim,) and len(op.values) == 1


def in_front(spec: KernelSpec, loop: Iterate, needed: set[str]) -> tuple[AnyOp, ...]:
    """The ops in front of a loop that are needed in it."""
    kept = list[AnyOp]()
    for op in reversed(spec.graph[: spec.graph.index(loop)]):
        if getattr(op, "name", "") in needed:
            kept.insert(0, op)
            needed.update(words_of(op))
    return tuple(kept)


def _making(spec: KernelSpec, one: _Sum, tensor: Tensor, own: tuple[str, ...]) -> KernelSpec:
    """The kernel with the sum alone in its loop; ``own``: its dims, which the tensor may have in another order."""
    loop = one.loop.model_copy(update={"carry": {one.name: one.loop.carry[one.name]}, "body": one.body})
    at = {} if tensor.shape == own else {dim: parse_index(dim) for dim in tensor.shape}
    graph = [*one.around, loop, Write(value=f"{loop.name}.{one.name}", to=made_name(spec, one.name), at=at)]
    reads = {op.tensor: op for op in every(Read, one.body)}
    tensors = {name: spec.tensors[name].model_copy(update={"space": "global"}) for name in reads}
    if any(every(Mma, one.body)):
        return _product(spec, one, {**tensors, made_name(spec, one.name): tensor}, graph, own)
    along = (dims_along(op, tensors[name].shape) or () for name, op in reads.items())
    is_along = any(dims[-1:] == (loop.dim,) for dims in along)
    sizes, (*outer, row) = _ALONG if is_along else _ACROSS, own
    tiles: list[AnyConstraint] = [Workgroup(dim=row, tile=_number(sizes["rows"]), axis=0)]
    tiles += [Workgroup(dim=dim, tile=_number(1), axis=min(at, LAST_AXIS)) for at, dim in enumerate(reversed(outer), 1)]
    tiles += [Tiling(dim=loop.dim, tile=_number(sizes["steps"])), Wave(dim=row, tile=_number(sizes["rows_wave"]))]
    return plain_kernel(spec, one.name, {**tensors, made_name(spec, one.name): tensor}, graph, tiles)


def _product(
    spec: KernelSpec, one: _Sum, tensors: Mapping[str, Tensor], graph: Sequence[AnyOp], own: tuple[str, ...]
) -> KernelSpec:
    """The kernel with a product of few columns; ``own``: its dims, of which one is that of these."""
    waves, (product,) = spec.schedule and spec.schedule.waves, every(Mma, one.body)
    copies = waves is not None and waves.producers > 0
    columns = _few_columns(spec, plain_graph(spec)[1], product)
    *outer, row = (dim for dim in own if dim not in columns)
    rows = _OF_PRODUCT["rows"] if copies else _ROWS_BY_LANES
    tiles: list[AnyConstraint] = [Workgroup(dim=row, tile=_number(rows), axis=0)]
    for axis, dim in enumerate((*columns, *outer), 1):
        size = max(_LEAST_COLUMNS, spec.dims[dim].value or spec.dims[dim].max or 1) if dim in columns else 1
        tiles.append(Workgroup(dim=dim, tile=_number(size), axis=min(axis, LAST_AXIS)))
    if not copies:
        tiles += [each for each in spec.constraints if isinstance(each, Tiling) and each.dim == one.loop.dim]
        return plain_kernel(spec, one.name, tensors, graph, tiles).model_copy(update={"params": spec.params})
    tiles.append(Tiling(dim=one.loop.dim, tile=_number(_OF_PRODUCT["steps"])))
    read = {op.tensor for op in every(Read, one.body) if op.name in (product.lhs, product.rhs)}
    staged = {name: tensor.model_copy(update={"space": "shared"}) for name, tensor in tensors.items() if name in read}
    schedule = Schedule(
        stages=_OF_PRODUCT["stages"],
        waves=WaveSchedule(producers=1),
        workgroups=WorkgroupSchedule(split=_OF_PRODUCT["split"]),
    )
    kernel = plain_kernel(spec, one.name, {**tensors, **staged}, graph, [*tiles, Wave(dim=row, tile=_number(64))])
    return kernel.model_copy(update={"schedule": schedule}).with_own_schedule(True)


def graph_reading(graph: Sequence[AnyOp], summing: Iterate, carried: str, read: Read) -> tuple[AnyOp, ...]:
    """The graph without what a loop carries under a name, and with what is read in place of it behind that.

    Args:
        summing: the loop with what makes that alone.
    """
    at = next(at for at, op in enumerate(graph) if isinstance(op, Iterate) and op.name == summing.name)
    loop = graph[at]
    assert isinstance(loop, Iterate)
    carry = {name: first for name, first in loop.carry.items() if name != carried}
    body = tuple(op for op in loop.body if getattr(op, "name", "") != carried)
    gone = {getattr(op, "name", "") for op in summing.body} - carry.keys()
    body = without_unused(body, lambda op: getattr(op, "name", "") in gone)
    rest = loop.model_copy(update={"carry": carry, "body": body})
    keeps = [rest] if carry or any(every(EffectOp, body)) else []
    pattern = re.compile(rf"(?<![\w.]){loop.name}\s*\.\s*{carried}\b")
    behind = [cast("AnyOp", _renamed(op, pattern, read.name)) for op in graph[at + 1 :]]
    return (*graph[:at], *keeps, read, *behind)


def _renamed(part: object, pattern: re.Pattern[str], name: str) -> object:
    """An op, or a part of it, in which every text that has a result of a loop has a name in its place."""
    if isinstance(part, str):
        return pattern.sub(name, part)
    if isinstance(part, tuple):
        return tuple(_renamed(one, pattern, name) for one in cast("tuple[object, ...]", part))
    if isinstance(part, Mapping):
        return {key: _renamed(one, pattern, name) for key, one in cast("Mapping[str, object]", part).items()}
    if isinstance(part, SpecModel):
        fields = {field: getattr(part, field) for field in type(part).model_fields}
        changed = {field: _renamed(one, pattern, name) for field, one in fields.items()}
        return part.model_copy(update={field: one for field, one in changed.items() if one != fields[field]})
    return part


def _number(value: int) -> Any:
    return parse_expression(str(value))
