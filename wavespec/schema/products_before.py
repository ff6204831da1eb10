"""The plain spec of a case goes in; the kernel that makes the product which its loop carries, and the one that goes on
from it row by row, come out: what joins elements of a row wants all of them in few lanes, a product few in each.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from wavespec.schema.checking.check_graph import plain_graph
from wavespec.schema.joined_dims import joined_dims
from wavespec.schema.language.base import Position
from wavespec.schema.language.constraints import AnyConstraint, Assume, Hardware, Tiling, Wave, Workgroup
from wavespec.schema.language.dtypes import DType
from wavespec.schema.language.expressions import Expression, Num
from wavespec.schema.language.index_parser import parse_index
from wavespec.schema.language.models import KernelSpec, Schedule, Tensor
from wavespec.schema.made_kernels import free_name, made_name, plain_kernel, unfolded, with_sizes, words_of
from wavespec.schema.ops import (
    AnyOp,
    Bitcast,
    Cast,
    Formula,
    Iterate,
    Mma,
    Read,
    Size,
    Structured,
    ValueType,
    Write,
    every,
)
from wavespec.schema.ops.elementwise import ELEMENTWISE
from wavespec.schema.sums_before import IN_FRONT, LAST_AXIS, graph_reading, in_front

_OF_STEP: Final = (Read, Formula, Cast, Bitcast, Size, Mma, *ELEMENTWISE)
"""What a product may be made of in its loop."""
_ROWS: Final = 4
"""Of a workgroup behind the product; each of its waves has one."""


@dataclass(frozen=True, slots=True)
class ProductBefore:
    """A product that a kernel of its own can make."""

    name: str
    loop: Iterate
    around: tuple[AnyOp, ...]
    """What the loop uses of what is in front of it."""
    dims: tuple[str, ...]
    """Those of the product, in order."""
    rows: tuple[str, ...]
    """Those of its dims along which nothing behind joins elements."""
    whole: tuple[str, ...]
    """Those along which something does."""
    dtype: DType


def product_that_can_be_made(spec: KernelSpec, names: Collection[str]) -> ProductBefore | None:
    """The first of the names that is a product which a loop carries alone, where all that is behind it goes on row by
    row; ``spec``: with tiles for its loops."""
    loops = [op for op in spec.graph if isinstance(op, Structured)]
    if len(loops) != 1 or not isinstance(loop := loops[0], Iterate) or len(loop.carry) != 1:
        return None
    (name,) = loop.carry
    bounds = (loop.start, loop.end, loop.step, loop.until)
    products = list(every(Mma, spec.graph))
    uses = sum(words_of(op).count(name) for op in loop.body)
    is_alone = len(products) == 1 and products[0] in loop.body and products[0].name == products[0].acc == name
    if name not in names or not is_alone or uses != 1 or any(bound is not None for bound in bounds):
        return None
    around = in_front(spec, loop, {loop.carry[name], *(word for op in loop.body for word in words_of(op))})
    if not all(isinstance(op, _OF_STEP) for op in loop.body) or not all(isinstance(op, IN_FRONT) for op in around):
        return None
    ops, types = plain_graph(spec)
    kind, at = types[f"{loop.name}.{name}"], next(at for at, op in enumerate(ops) if isinstance(op, Iterate))
    joined = {*joined_dims(ops[at + 1 :], types)}
    rows = tuple(dim for dim in kind.dims if dim not in joined)
    found = ProductBefore(name, loop, around, kind.dims, rows, tuple(d for d in kind.dims if d in joined), kind.dtype)
    return found if rows and found.whole and _are_rows(spec, found) else None


def _are_rows(spec: KernelSpec, found: ProductBefore) -> bool:
    """Whether a wave can have all that is made of a row: what else has dims has few elements of them, and nothing is
    read or written at places of a row that others are about."""
    behind = spec.graph[spec.graph.index(found.loop) + 1 :]
    types = plain_graph(spec)[1]
    others = {dim for op in behind for dim in _dims_of(op, types)} - {*found.rows}
    sizes = (spec.dims[dim].value or spec.dims[dim].max for dim in others)
    read = [spec.tensors[op.tensor].role for op in every(Read, behind)]
    return all(size is not None for size in sizes) and all(role == "input" for role in read)


def _dims_of(op: AnyOp, types: Mapping[str, ValueType]) -> Iterator[str]:
    names = [getattr(op, "name", ""), *words_of(op)]
    yield from (dim for name in names if name in types for dim in types[name].dims)


def with_product_before(spec: KernelSpec, found: ProductBefore) -> tuple[KernelSpec, KernelSpec]:
    """The kernel that makes a product which the schedule materializes, with the tiles and the schedule of the spec, to
    a tensor called as the product with `_made` behind it, and the one that goes on from it, a row in each wave."""
    schedule = spec.schedule
    assert schedule is not None
    made = made_name(spec, found.name)
    tensor = Tensor(shape=schedule.materialize[found.name], dtype=found.dtype, role="output")
    at = {} if tensor.shape == found.dims else {dim: parse_index(dim) for dim in tensor.shape}
    graph = [*found.around, found.loop, Write(value=f"{found.loop.name}.{found.name}", to=made, at=at)]
    read = {op.tensor: spec.tensors[op.tensor] for op in every(Read, found.loop.body)}
    tensors = {name: one for name, one in spec.tensors.items() if name in read} | {made: tensor}
    left = {name: dims for name, dims in schedule.materialize.items() if name != found.name}
    making = plain_kernel(spec, found.name, tensors, graph, [*_known_in(spec, tensors)])
    making = making.model_copy(
        update={"params": spec.params, "schedule": schedule.model_copy(update={"materialize": left})}
    ).with_own_schedule(True)
    span = schedule.key_span_of("materialize", found.name)
    making.was_written_at({(): Position(span)} if span else {})
    return making, _reading(spec, found, made, tensor)


def product_alone(spec: KernelSpec, asked: Mapping[str, tuple[str, ...]]) -> KernelSpec:
    """The kernel that makes a product, which has to be one that can be made; ``spec``: with tiles for its loops."""
    found = product_that_can_be_made(spec, asked)
    assert found is not None, asked
    return with_product_before(spec.model_copy(update={"schedule": Schedule(materialize=dict(asked))}), found)[0]


def _reading(spec: KernelSpec, found: ProductBefore, made: str, tensor: Tensor) -> KernelSpec:
    name = free_name(spec, f"{found.loop.name}_{found.name}")
    graph = graph_reading(spec.graph, found.loop, found.name, Read(name=name, tensor=made, dims=found.dims))
    used = {word for op in graph for word in words_of(op)}
    graph = tuple(op for op in graph if op not in found.around or getattr(op, "name", "") in used)
    read = {op.tensor for op in every(Read, graph)}
    kept = {one: spec.tensors[one] for one in spec.tensors if spec.tensors[one].role != "input" or one in read}
    tensors = {made: tensor.model_copy(update={"role": "input"}), **kept}
    update: dict[str, Any] = {
        "dims": unfolded(spec.dims),
        "graph": graph,
        "tensors": {**with_sizes(spec.dims, tensors, spec.tensors), **tensors},
        "constraints": (*_tiles_of_rows(spec, found), *_without_product(_known_in(spec, tensors))),
        "schedule": None,
    }
    return spec.model_copy(update=update).with_own_schedule(False)


def _tiles_of_rows(spec: KernelSpec, found: ProductBefore) -> Iterator[AnyConstraint]:
    *outer, row = found.rows
    yield Workgroup(dim=row, tile=Num(_ROWS), axis=0)
    yield from (Workgroup(dim=dim, tile=Num(1), axis=min(at, LAST_AXIS)) for at, dim in enumerate(reversed(outer), 1))
    for dim in found.whole:
        if spec.dims[dim].value is None:
            yield Tiling(dim=dim, tile=Num(1 << ((spec.dims[dim].max or 1) - 1).bit_length()))
    yield Wave(dim=row, tile=Num(1))


def _known_in(spec: KernelSpec, tensors: Collection[str]) -> Iterator[AnyConstraint]:
    """The constraints without promises about what tensors that are not there are like."""
    own = spec.model_copy(update={"tensors": {name: one for name, one in spec.tensors.items() if name in tensors}})
    known = {*spec.dims, *spec.params, *own.numbers}
    for one in spec.constraints:
        if not isinstance(one, Assume) or {*one.condition.names()} <= known:
            yield one


def _without_product(constraints: Iterator[AnyConstraint]) -> Iterator[AnyConstraint]:
    """What is said of more than tiles and the instructions of a product."""
    for one in constraints:
        if isinstance(one, Hardware):
            yield Hardware(settings=one.settings.model_copy(update={"mma": None, "vector": dict[str, Expression]()}))
        elif isinstance(one, Assume):
            yield one
