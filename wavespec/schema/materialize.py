"""The plain spec of a case goes in; the kernels that write what its schedule materializes, and the one that reads it,
come out: plain specs like any other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from wavespec.diagnostics import WavespecError, Where, listing, quote
from wavespec.ir.dtype import SCALED_PRODUCT
from wavespec.schema.checking.check_graph import plain_graph
from wavespec.schema.filled_dims import filled_dims, read_filled, with_filled
from wavespec.schema.laid_out_results import obstacles, with_result_behind
from wavespec.schema.language.base import Position
from wavespec.schema.language.dtypes import DType
from wavespec.schema.language.models import KernelSpec, Schedule, Space, Tensor
from wavespec.schema.made_kernels import (
    decoded,
    made_name,
    times_scale,
    unfolded,
    with_sizes,
    words_of,
    writing_input,
    writing_value,
)
from wavespec.schema.ops import AnyOp, Bitcast, Cast, Formula, Index, Mma, Read, Size, Structured, ValueOp, every
from wavespec.schema.ops.elementwise import ELEMENTWISE
from wavespec.schema.packed_rows import packed
from wavespec.schema.parted_loops import parted
from wavespec.schema.products_before import product_that_can_be_made, with_product_before
from wavespec.schema.renamed_dims import dims_along
from wavespec.schema.rows_with_room import with_room
from wavespec.schema.sums_before import sums_that_can_be_made, with_sums_before
from wavespec.schema.unused_ops import without_unused

_COPIED: Final = (Read, Formula, Cast, Bitcast, Index, Size, *ELEMENTWISE)
"""What a value may be made of for a kernel of its own to make it."""


class CannotMaterialize(WavespecError, code="cannot-materialize"):
    """What a schedule materializes is nothing that a kernel of its own could write."""

    def __init__(self, where: Where, name: str, why: str, hint: str) -> None:
        super().__init__(where, f"{quote(name)} cannot be materialized: {why}.", hints=[hint], about=[name])


def kernels_of(spec: KernelSpec, *, one_lane: bool = False) -> tuple[KernelSpec, ...]:
    """The kernels that a call runs one after another, the last of which writes the results. What they hand on is called
    as it is in the spec, with `_made` behind it.

    Args:
        one_lane: whether waves of the machine are one lane.

    Raises:
        CannotMaterialize: something that the schedule names, at its place there.
        PartsNotPossible: the same of `parts`.
        PackNotPossible: rows that are none of one tile.
        ShiftNotPossible: rows of which none is a tap of another.
    """
    if spec.schedule is not None and spec.schedule.pack:
        spec = packed(spec)
    if spec.schedule is not None and spec.schedule.shift:
        spec = with_room(spec)
    schedule = spec.schedule
    if schedule is not None and schedule.parts:
        return parted(spec, one_lane=one_lane)
    if schedule is None or not schedule.materialize:
        return (spec,)
    if product := product_that_can_be_made(spec, schedule.materialize):
        _Asked(spec, schedule, product.name).check_dims(product.dims)
        making, rows = with_product_before(spec, product)
        return (*kernels_of(making, one_lane=one_lane), rows)
    written = next((one for one in schedule.materialize if _is_written(spec, one)), None)
    if written is not None:
        asked = _Asked(spec, schedule, written)
        asked.check_output()
        asked.check_dims(spec.tensors[written].shape)
        writing, behind = with_result_behind(spec, written, schedule.materialize[written], one_lane=one_lane)
        span = schedule.key_span_of("materialize", written)
        behind.was_written_at({(): Position(span)} if span else {})
        return (*kernels_of(writing, one_lane=one_lane), behind)
    for name, own in sums_that_can_be_made(spec, schedule.materialize).items():
        _Asked(spec, schedule, name).check_dims(own)
    sums, spec = with_sums_before(spec)
    schedule = spec.schedule
    if schedule is None or not schedule.materialize:
        return (*sums, spec)
    found = {name: _Asked(spec, schedule, name) for name in schedule.materialize}
    values = {name: asked.value() for name, asked in found.items() if name not in spec.tensors}
    kernels: list[KernelSpec] = []
    for name, dims in schedule.materialize.items():
        if name in spec.tensors:
            found[name].check_input()
            kernel = writing_input(spec, name, dims, one_lane=one_lane)
        else:
            found[name].check_dims(values[name].dims)
            type_ = (values[name].dims, values[name].dtype)
            kernel = writing_value(spec, name, values[name].ops, type_, dims, values[name].written, one_lane=one_lane)
        span = schedule.key_span_of("materialize", name)
        kernel.was_written_at({(): Position(span)} if span else {})
        kernels.append(kernel)
    return (*sums, *kernels, _reading(spec, schedule, values, kernels))


def _is_written(spec: KernelSpec, name: str) -> bool:
    return name in spec.tensors and spec.tensors[name].role != "input"


def sources_of(
    spec: KernelSpec, asked: Mapping[str, tuple[str, ...]], *, renamed: bool = False
) -> tuple[str, ...] | None:
    """For each value that is asked for, the input whose elements it is made of, one of each, with ``renamed`` also by
    other names of dims; None where a value is of another kind, or cannot be materialized."""
    schedule = Schedule(materialize=dict(asked))
    sources: list[str] = []
    for name, dims in asked.items():
        entry = _Asked(spec, schedule, name)
        try:
            value = entry.value()
            entry.check_dims(value.dims)
        except WavespecError:
            return None
        reads = (op for op in value.ops if isinstance(op, Read) and (renamed or not op.at))
        along = ((op.tensor, dims_along(op, spec.tensors[op.tensor].shape)) for op in reads)
        source = next((tensor for tensor, own in along if own and {*own} == {*dims}), None)
        if source is None:
            return None
        sources.append(source)
    return tuple(sources)


def may_be_laid_out(spec: KernelSpec, asked: Mapping[str, tuple[str, ...]]) -> bool:
    """Whether kernels of their own could write these inputs with their dims in another order."""
    schedule = Schedule(materialize=dict(asked))
    try:
        for name in asked:
            entry = _Asked(spec, schedule, name)
            entry.check_input()
    except WavespecError:
        return False
    return True


def laid_out_anew(spec: KernelSpec, shapes: Mapping[str, tuple[str, ...]]) -> KernelSpec:
    """The spec whose inputs have these dims in this order, and are read as before."""
    before = {name: spec.tensors[name].shape for name in shapes}

    def changed(op: AnyOp) -> AnyOp:
        if isinstance(op, Structured):
            return op.with_bodies(lambda inner: tuple(map(changed, inner)))
        if isinstance(op, Read) and op.tensor in before and op.dims is None:
            return op.model_copy(update={"dims": before[op.tensor]})
        return op

    laid_out = {name: spec.tensors[name].model_copy(update={"shape": shape}) for name, shape in shapes.items()}
    tensors = {name: laid_out.get(name, tensor) for name, tensor in spec.tensors.items()}
    return spec.model_copy(update={"tensors": tensors, "graph": tuple(map(changed, spec.graph))})


@dataclass(frozen=True, slots=True)
class _Value:
    """What makes a value that is materialized, in order, and the type of what is written."""

    ops: tuple[ValueOp, ...]
    dims: tuple[str, ...]
    dtype: DType
    written: Formula | None
    """What of the value is written, if not the value itself."""
    has_scale: bool
    """Whether that is the value times its scale, which products scale no more."""


@dataclass(frozen=True, slots=True)
class _Asked:
    """An entry of `materialize`."""

    spec: KernelSpec
    schedule: Schedule
    name: str

    def refused(self, why: str, hint: str) -> CannotMaterialize:
        return CannotMaterialize(self.schedule.where_key("materialize", self.name), self.name, why, hint)

    def check_dims(self, own: Sequence[str]) -> None:
        if sorted(self.schedule.materialize[self.name]) != sorted(own):
            hint = "List each of them once, the one whose elements lie side by side last."
            raise self.refused(f"it has the dims {listing(own)}", self._filling(own) or hint)

    def _filling(self, own: Sequence[str]) -> str:
        """What to write of a dim that is none of the value's, but made of one."""
        dims, asked = self.spec.dims, self.schedule.materialize[self.name]
        made = {name: dims[name].equals for name in asked if name not in own and name in dims}
        name, size = next(((name, size) for name, size in made.items() if size is not None), ("", None))
        source = next((dim for dim in (size.names() if size is not None else ()) if dim in own), "")
        if not source:
            return ""
        filled = f"A dim of an input is filled up to a multiple, '{name}: {{equals: \"ceildiv({source}, 8) * 8\"}}'"
        return f"{filled}; {quote(name)} is {size}." if self.name in self.spec.tensors else f"{filled}; name the input."

    def check_input(self) -> None:
        tensor = self.spec.tensors[self.name]
        if tensor.role != "input":
            raise self.refused("the kernel writes it", "Name an input, or a value.")
        if tensor.is_strided:
            raise self.refused("it may have any strides", "Name the value that is read of it.")
        filled = filled_dims(self.spec.dims, tensor.shape, self.schedule.materialize[self.name])
        self.check_dims(with_filled(tensor.shape, filled))

    def check_output(self) -> None:
        for why, hint in obstacles(self.spec, self.name):
            raise self.refused(why, hint)

    def value(self) -> _Value:
        """Of an entry that is no tensor."""
        spec, name = self.spec, self.name
        found = list(_definitions(spec.graph, name, {}))
        if len(found) != 1:
            what = "several values have the name" if found else "there is no such input or value"
            raise self.refused(what, "Name an input, or a value that is defined once.")
        types = plain_graph(spec)[1]
        scales = self._scales()
        # An element keeps all of its bits where powers of two scale it; others scale the sums of the product.
        has_scale = bool(scales) and all(types[one].dtype == "f8e8m0fnu" for one in scales)
        found += _definitions(spec.graph, scales[0], {}) if has_scale else ()
        ops = _made_of(found)
        for one in ops:
            if not isinstance(one, _COPIED):
                raise self.refused(f"it is made by {quote(one.word)}", "Name a value that reads and arithmetic make.")
        if not scales:
            return _Value(ops, types[name].dims, types[name].dtype, None, has_scale)
        written = times_scale(spec, name, scales[0]) if has_scale else decoded(spec, name)
        return _Value(ops, types[name].dims, SCALED_PRODUCT, written, has_scale)

    def _scales(self) -> list[str]:
        """What products multiply the value by, then what they multiply their other operands by; nothing without."""
        products = [one for one in every(Mma, self.spec.graph) if one.scales is not None]
        pairs = [
            pair
            for product in products
            for pair in (_scaled_operands(product), _scaled_operands(product)[::-1])
            if pair[0][0] == self.name
        ]
        if not pairs:
            return []
        uses = sum(words_of(op).count(self.name) for op in self.spec.graph)
        if len({scale for (_, scale), _ in pairs}) > 1 or len(pairs) < uses:
            raise self.refused(
                "not all that uses it multiplies it by one scale", "Read its tensor again for the others."
            )
        return [pairs[0][0][1], *(scale for _, (_, scale) in pairs)]


def _scaled_operands(op: Mma) -> list[tuple[str, str]]:
    """The operands of a product, each with what the product multiplies it by; none of one without scales."""
    return list(zip((op.lhs, op.rhs), op.scales or (), strict=False))


def _definitions(
    body: Sequence[AnyOp], name: str, visible: Mapping[str, ValueOp]
) -> Iterator[tuple[ValueOp, Mapping[str, ValueOp]]]:
    """The ops that define a value of this name, each with the ops whose results it may use, in order."""
    known = dict(visible)
    for op in body:
        if isinstance(op, Structured):
            for field in op.bodies:
                yield from _definitions(getattr(op, field), name, {**known, **dict.fromkeys(op.carry, op)})
        if isinstance(op, ValueOp):
            if op.name == name and op.is_value:
                yield op, dict(known)
            known[op.name] = op


def _made_of(found: Sequence[tuple[ValueOp, Mapping[str, ValueOp]]]) -> tuple[ValueOp, ...]:
    """The ops with all that they use of what each may use, in order."""
    visible = dict[str, ValueOp]()
    for op, known in found:
        visible |= {**known, op.name: op}
    pending = [op for op, _ in found]
    needed = {id(op) for op in pending}
    while pending:
        used = (visible[word] for word in words_of(pending.pop()) if word in visible)
        new = {id(op): op for op in used if id(op) not in needed}
        needed |= new.keys()
        pending += new.values()
    return tuple({id(op): op for op in visible.values() if id(op) in needed}.values())


def _reading(
    spec: KernelSpec, schedule: Schedule, values: Mapping[str, _Value], kernels: Sequence[KernelSpec]
) -> KernelSpec:
    """The kernel with what was made in place of what it was made of."""
    shapes = {name: tensor.shape for name, tensor in spec.tensors.items() if name in schedule.materialize}
    gone = {op.name for value in values.values() for op in value.ops} - values.keys()
    graph = without_unused(_replaced(spec, spec.graph, values, shapes), lambda op: getattr(op, "name", "") in gone)
    read = {op.tensor for op in every(Read, graph)}
    made: dict[str, Tensor] = {}
    for kernel, (name, dims) in zip(kernels, schedule.materialize.items(), strict=True):
        written = made_name(spec, name)
        # What writes it may have one dim for several that are side by side.
        update = {"role": "input", "space": _space(spec, name, values), "shape": dims}
        made[written] = kernel.tensors[written].model_copy(update=update)
    kept = {name: one for name, one in spec.tensors.items() if one.role != "input" or name in read}
    update = {
        "dims": unfolded(spec.dims),
        "graph": graph,
        "tensors": {**made, **with_sizes(spec.dims, {**made, **kept}, spec.tensors), **kept},
        "schedule": schedule.model_copy(update={"materialize": {}}),
    }
    return spec.model_copy(update=update)


def _space(spec: KernelSpec, name: str, values: Mapping[str, _Value]) -> Space:
    """Where tiles are staged: as those of the input, or of the first one that a value is made of."""
    read = [op.tensor for op in values[name].ops if isinstance(op, Read)] if name in values else [name]
    return spec.tensors[read[0]].space if read else "global"


def _replaced(
    spec: KernelSpec, body: Sequence[AnyOp], values: Mapping[str, _Value], shapes: Mapping[str, tuple[str, ...]]
) -> tuple[AnyOp, ...]:
    """The graph that reads ``values``, and inputs of these ``shapes``, where they were made."""
    result: list[AnyOp] = []
    for op in body:
        update: dict[str, Any] = {}
        if isinstance(op, Structured):
            result.append(op.with_bodies(lambda inner: _replaced(spec, inner, values, shapes)))
            continue
        if isinstance(op, Mma) and any(values[one].has_scale for one in (op.lhs, op.rhs) if one in values):
            here = [pair for pair in _scaled_operands(op) if pair[0] not in values]
            scaled = {operand: times_scale(spec, operand, scale) for operand, scale in here}
            known = {getattr(one, "name", "") for one in result}
            for one in scaled.values():
                one.was_written_at(op.positions)
                result += [one] if one.name not in known else []
            names = {operand: one.name for operand, one in scaled.items()}
            update = {"scales": None, "lhs": names.get(op.lhs, op.lhs), "rhs": names.get(op.rhs, op.rhs)}
        elif isinstance(op, Read) and op.tensor in shapes:
            assert spec.schedule is not None
            own = shapes[op.tensor]
            filled = filled_dims(spec.dims, own, spec.schedule.materialize[op.tensor])
            update = {"tensor": made_name(spec, op.tensor), **read_filled(op, own, filled)}
        elif isinstance(op, ValueOp) and op.name in values:
            read = Read(name=op.name, tensor=made_name(spec, op.name), dims=values[op.name].dims)
            read.was_written_at(op.positions)
            result.append(cast("AnyOp", read))
            continue
        result.append(op.model_copy(update=update) if update else op)
    return tuple(result)
