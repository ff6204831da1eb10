"""The constraints of a kernel and its targets go in; unknown dims and contradictions come out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from wavespec.diagnostics import Related, WavespecError, Where, quote
from wavespec.schema.checking.check_orders import check_order_names
from wavespec.schema.checking.check_places import check_place
from wavespec.schema.checking.check_scalars import refuse_fraction
from wavespec.schema.checking.check_strides import check_number, is_number
from wavespec.schema.language.constraints import AnyConstraint, Assume, Device, Hardware, Tiling, Wave, Workgroup
from wavespec.schema.language.dtypes import DType
from wavespec.schema.language.expressions import PLACES, Call, Expression
from wavespec.schema.language.models import KernelSpec
from wavespec.schema.ops import AnyOp, Iterate, Read, Structured, Take, every
from wavespec.schema.ops.iterate import DimNotTiled
from wavespec.schema.resolve import UndefinedName, part_of, targets_of


class RepeatedConstraint(WavespecError, code="repeated-constraint"):
    def __init__(self, again: AnyConstraint, first: AnyConstraint) -> None:
        about = "" if isinstance(again, Hardware) else f" for {quote(again.subject)}"
        super().__init__(
            again.where(),
            f"There are two {quote(again.word)} constraints{about}.",
            hints=["Delete one of them."],
            related=[Related(first.span, "first")] if first.span else [],
        )


class SplitTwice(WavespecError, code="split-twice"):
    def __init__(self, again: Workgroup | Tiling, first: Workgroup | Tiling) -> None:
        super().__init__(
            again.where("dim"),
            f"{quote(again.dim)} is split over workgroups and walked over in tiles; a dim is one or the other.",
            hints=["Delete one of the constraints, or make two dims of it."],
            related=[Related(span, "first")] if (span := first.span_of("dim")) else [],
        )


class UselessConstraint(WavespecError, code="useless-constraint", severity="warning"):
    def __init__(self, where: Where, dim: str) -> None:
        super().__init__(
            where, f"No tensor has the dim {quote(dim)}, so there is nothing to split.", hints=["Delete the line."]
        )


class WaveWithoutWorkgroup(WavespecError, code="wave-without-workgroup"):
    def __init__(self, where: Where, dim: str) -> None:
        super().__init__(
            where,
            f"A wave splits the workgroup's tile of {quote(dim)}, which has none.",
            hints=[
                f"Add {{workgroup: {dim}, tile: ..., axis: ...}}, or {{tiling: {dim}, tile: ...}} where one tile or a "
                "loop takes all of it."
            ],
        )


class NotACondition(WavespecError, code="not-a-condition"):
    def __init__(self, where: Where, text: str) -> None:
        super().__init__(
            where,
            f"{quote(text)} is a number; a condition is a comparison.",
            hints=["Such as 'K > 4 * BLOCK_K'."],
        )


class PlaceOutsideGraph(WavespecError, code="place-outside-graph"):
    def __init__(self, where: Where, text: str) -> None:
        super().__init__(
            where,
            f"{quote(text)} is known inside the graph only: every workgroup and every step has its own.",
            hints=["The size of a dim is its name."],
        )


def check_constraints(spec: KernelSpec, broken: frozenset[str], *, is_whole: bool) -> Iterator[WavespecError]:
    yield from _check(spec, spec.constraints, broken, is_whole)
    for settings in spec.targets.values():
        for override in (settings, *settings.cases):
            if override.constraints is not None:
                yield from _check(spec, override.constraints, broken, is_whole)


def check_tilings(spec: KernelSpec) -> Iterator[WavespecError]:
    """Loops of a sound graph that the constraints of one target, or of a case of it, leave without a tile."""
    for target in targets_of(spec):
        settings = next((entry for name, entry in spec.targets.items() if name == target), None)
        for override in (settings, *settings.cases) if settings is not None else ():
            tiled = {one.dim for one in override.constraints or () if isinstance(one, Tiling)}
            is_spelt = override.constraints is not None and tiled <= spec.dims.keys()
            for loop in every(Iterate, spec.graph) if is_spelt else ():
                if loop.dim not in tiled:
                    owner = target if override is settings else f"this case of {target}"
                    yield DimNotTiled(override.where("constraints"), loop.dim, owner, loop.span_of("dim"))


def _check(
    spec: KernelSpec, constraints: tuple[AnyConstraint, ...], broken: frozenset[str], is_whole: bool
) -> Iterator[WavespecError]:
    first: dict[tuple[str, str], AnyConstraint] = {}
    types: dict[str, DType] = {}
    for op in spec.graph:
        if isinstance(op, Read) and (tensor := spec.tensors.get(op.tensor)) is not None:
            types[op.name] = tensor.dtype
        elif isinstance(op, Read):
            broken |= {op.name}
    for constraint in constraints:
        if isinstance(constraint, Assume):
            yield from check_condition(spec, constraint.condition, constraint.where("condition"), broken)
            continue
        subject = "" if isinstance(constraint, Hardware) else constraint.dim
        earlier = first.setdefault((constraint.word, subject), constraint)
        if earlier is not constraint:
            yield RepeatedConstraint(constraint, earlier)
        if isinstance(constraint, Hardware):
            for dim in constraint.settings.vector:
                if dim not in spec.dims and dim not in broken:
                    where = constraint.settings.where_key("vector", dim)
                    yield UndefinedName(where, dim, "a dim", list(spec.dims))
            continue
        for field in ("start", "count"):
            if (bound := getattr(constraint, field, None)) is not None:
                yield from check_place(spec, bound, constraint.where(field), broken)
        if isinstance(constraint, Workgroup) and constraint.order is not None:
            yield from check_order_names(spec, constraint.order, constraint.where("order"), broken)
        if isinstance(constraint, Workgroup) and constraint.end is not None and is_whole:
            yield from check_place(spec, constraint.end, constraint.where("end"), broken, types.get, [*types])
        if subject not in spec.dims and subject not in broken:
            yield UndefinedName(constraint.where("dim"), subject, "a dim", list(spec.dims))
    split = {constraint.dim for constraint in constraints if isinstance(constraint, Workgroup | Tiling)}
    if not is_whole or not split <= spec.dims.keys():  # a dim that is spelt in another way may be any of them
        return
    yield from _splits(spec, [one for one in first.values() if not isinstance(one, Hardware | Assume)])
    for constraint in constraints:
        if isinstance(constraint, Wave) and constraint.dim not in split and constraint.dim in spec.dims:
            yield WaveWithoutWorkgroup(constraint.where("dim"), constraint.dim)


def _named(body: Sequence[AnyOp]) -> Iterator[str]:
    """Dims that values of a body have by name."""
    for op in body:
        if isinstance(op, Read | Take):
            yield from op.dims or ()
        elif isinstance(op, Structured):
            for field in op.bodies:
                yield from _named(getattr(op, field))


def _splits(spec: KernelSpec, constraints: Sequence[Workgroup | Tiling | Wave | Device]) -> Iterator[WavespecError]:
    """Constraints that do not go together, or do nothing."""
    used = {dim for tensor in spec.tensors.values() for dim in tensor.shape}
    used |= {name for name, dim in spec.dims.items() if dim.equals is not None}
    used |= set(_named(spec.graph))
    taken: dict[str, Workgroup | Tiling] = {}
    for constraint in constraints:
        if constraint.dim in spec.dims and constraint.dim not in used:
            yield UselessConstraint(constraint.where(), constraint.dim)
        elif isinstance(constraint, Workgroup | Tiling):
            earlier = taken.setdefault(constraint.dim, constraint)
            if earlier is not constraint:
                yield SplitTwice(constraint, earlier)


def check_condition(
    spec: KernelSpec, condition: Expression, where: Where, broken: frozenset[str]
) -> Iterator[WavespecError]:
    """What is wrong with a condition on dims, parameters and scalars that was written at `where`."""
    if not condition.is_condition:
        yield NotACondition(where, str(condition))
    yield from check_asked(spec, condition, where, broken)


def check_asked(
    spec: KernelSpec, expression: Expression, where: Where, broken: frozenset[str]
) -> Iterator[WavespecError]:
    """What is wrong with the names in what a call computes of its dims, parameters and scalars, written at `where`."""
    for node in expression.walk():
        if isinstance(node, Call) and node.function in PLACES:
            yield PlaceOutsideGraph(part_of(where, node), str(node))
        name = getattr(node, "name", None)
        if name is None or name in broken or any(name in one for one in (spec.dims, spec.params, spec.scalars)):
            continue
        if name in spec.named_strides or name in spec.numbers:
            continue
        if is_number(name):
            yield from check_number(spec, name, part_of(where, node), broken)
        else:
            known = [*spec.dims, *spec.params, *spec.scalars, *spec.named_strides]
            yield UndefinedName(part_of(where, node), name, "a dim or a parameter", known)
    yield from refuse_fraction(spec, expression, where)
