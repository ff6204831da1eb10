"""A spec and a target go in; the plain spec of that target, or the integers of its parameters, come out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from wavespec.diagnostics import WavespecError, Where, name_hints, quote
from wavespec.ir.dtype import DTYPES
from wavespec.ir.strided import contiguous_strides, numbers_of_tensor, with_dense_strides
from wavespec.schema.language.base import Path, Position
from wavespec.schema.language.constraints import AnyConstraint, Assume, Hardware
from wavespec.schema.language.errors import UnknownTarget
from wavespec.schema.language.expressions import EvaluationError, Expression, Name
from wavespec.schema.language.models import Case, KernelSpec, Override, TargetOverride, Tensor
from wavespec.targets.names import TARGETS, target_of


class CyclicParams(WavespecError, code="cyclic-params"):
    def __init__(self, where: Where, cycle: list[str]) -> None:
        chain = " -> ".join([*cycle, cycle[0]])
        super().__init__(where, f"The value of {quote(cycle[0])} depends on itself.", notes=[chain], about=cycle)


class NotForTarget(WavespecError, code="not-for-target"):
    def __init__(self, where: Where, target: str) -> None:
        super().__init__(
            where,
            f"This kernel is not for {quote(target)}.",
            hints=[f"Add {quote(target)} to 'only', if it has an instruction for these types."],
        )


class NoConstantValue(WavespecError, code="no-constant-value"):
    """An expression that must be known before the kernel runs is not, or has no exact integer value."""


class UndefinedName(WavespecError, code="undefined-name"):
    def __init__(self, where: Where, name: str, what: str, known: list[str]) -> None:
        hints = name_hints(name, known, "Known here are")
        if not known and what == "a parameter":
            hints = (f"Give it a number: 'params: {{{name}: 64}}'.",)
        super().__init__(where, f"{quote(name)} is not {what}.", hints=hints, about=[name])


def is_for_others(spec: KernelSpec, case: Case) -> bool:
    """Whether a case is for kernels with other parameters than this one: one of its conditions is about parameters
    alone, and is not so."""
    params = {**spec.params, **case.params}
    about = [(at, one) for at, one in enumerate(case.when) if one.names() and params.keys() >= set(one.names())]
    if not about:
        return False
    own = spec_with_override(spec, Override(params=case.params))
    return not all(evaluate_constant(own, one, case.where("when", at), constant_values(own)) for at, one in about)


def targets_of(spec: KernelSpec) -> tuple[str, ...]:
    """The targets that a kernel is for."""
    return tuple(target for target in TARGETS if not spec.only or target in spec.only)


def is_for(spec: KernelSpec, target: str) -> bool:
    """Whether a kernel is for a target, or for variants of one."""
    return target_of(target) in targets_of(spec)


def numbers_of_contiguous(spec: KernelSpec, sizes: Mapping[str, int]) -> dict[str, int]:
    """Offsets, strides and alignments of tensors where they may be others, by their names, and the names of strides:
    all as of tensors that start where memory does, and whose rows lie behind each other."""
    named = with_named_strides(spec, sizes)
    found = {name: named[name] for name in spec.named_strides}
    for name, tensor in spec.tensors.items():
        if tensor.is_strided:
            shape, strides = [sizes[dim] for dim in tensor.shape], strides_of(spec, name, named)
            bytes_, are_promised = DTYPES[tensor.dtype].bytes, bool(tensor.promised_strides)
            found |= numbers_of_tensor(name, tensor.shape, shape, strides, 0, bytes_, are_promised=are_promised)
    return found


def with_named_strides(spec: KernelSpec, sizes: Mapping[str, int]) -> dict[str, int]:
    """All that strides are made of: ``sizes``, parameters, and names that ``sizes`` may have, else are as small as
    rows behind each other are."""

    def name_of(entry: Expression) -> str | None:
        return entry.name if isinstance(entry, Name) else None

    def value_of(entry: Expression, values: Mapping[str, int]) -> int:
        if not values.keys() >= set(entry.names()):
            raise KeyError(str(entry))
        return int(entry.evaluate(values))

    if not any(tensor.promised_strides for tensor in spec.tensors.values()):
        return dict(sizes)
    tensors = [
        ([sizes[dim] for dim in tensor.shape], tensor.promised_strides)
        for tensor in spec.tensors.values()
        if tensor.promised_strides
    ]
    return with_dense_strides(tensors, {**constant_values(spec), **sizes}, name_of, value_of)


def strides_of(spec: KernelSpec, tensor: str, named: Mapping[str, int]) -> tuple[int, ...]:
    """The strides of a tensor in elements: those that the spec promises, of what `with_named_strides` gives, else
    those of a contiguous one."""
    one = spec.tensors[tensor]
    if one.promised_strides:
        return tuple(int(stride.evaluate(named)) for stride in one.promised_strides)
    return contiguous_strides([named[dim] for dim in one.shape])


def spec_for_target(spec: KernelSpec, target: str) -> KernelSpec:
    """The spec with what `target` says for all sizes merged in, and without `targets`; every part keeps its position.

    Raises:
        UnknownTarget: `target` is no target of wavespec. One that the spec has no entry for is fine.
        NotForTarget: the spec is only for others.
    """
    if target_of(target) not in TARGETS:
        raise UnknownTarget(None, target, TARGETS)
    if not is_for(spec, target):
        raise NotForTarget(spec.where("only"), target)
    override = override_of(spec, target)
    plain = spec if override is None else spec_with_override(spec, override)
    plain = plain.model_copy(update={"targets": {}})
    if plain.has_own_schedule is not None:
        return plain
    is_own = override is not None and override.schedule is not None
    return plain.with_own_schedule(is_own or len(targets_of(spec)) == 1)


def spec_with_override(spec: KernelSpec, override: Override) -> KernelSpec:
    """The spec with the settings of `override` in place of its own; every part keeps its position."""
    positions = dict(spec.positions)
    for path, position in override.positions.items():
        if path[:1] in (("params",), ("constraints",), ("schedule",)) and len(path) > 1:
            positions[path] = position
    merged = spec.model_copy(
        update={
            "params": {**spec.params, **override.params},
            "tensors": {name: _tensor(tensor, override, name) for name, tensor in spec.tensors.items()},
            "constraints": _constraints(spec, override),
            "schedule": override.schedule or spec.schedule,
        }
    )
    merged.was_written_at(positions)
    return merged


def spec_as_on(spec: KernelSpec, target: str) -> KernelSpec:
    """The whole spec with the parameters and constraints that it has on `target`, for that alone: what a call of any
    case is to compute there.  With these, what others replace need not be right."""
    override, name = override_of(spec, target), target_of(target)
    if override is None:
        return spec
    own = spec_with_override(spec, Override(params=override.params, constraints=override.constraints))
    return own.model_copy(update={"targets": {name: override}, "only": (name,)})


def resolve_params(spec: KernelSpec) -> dict[str, int]:
    """Every parameter's integer value.

    Raises:
        WavespecError: an undefined name, a cycle, or a value that is not an integer of 64 bits.
    """
    values: dict[str, int] = {}
    for name in spec.params:
        _resolve(spec, name, values, [])
    return values


def names_behind(spec: KernelSpec, names: Iterable[str]) -> frozenset[str]:
    """The parameters among `names`, and all that their values are made of."""
    reached: set[str] = set()
    pending = list(names)
    while pending:
        name = pending.pop()
        if name not in reached and name in spec.params:
            reached.add(name)
            pending += spec.params[name].names()
    return frozenset(reached)


def parameters_of_sizes(spec: KernelSpec) -> dict[str, frozenset[str]]:
    """The parameters that decide the sizes of dims which follow from others, through other dims as well; none where
    dims follow from themselves, which is reported as such."""
    found: dict[str, frozenset[str]] = {}
    try:
        following = derivations(spec)
    except CyclicParams:
        return found
    for dim, expression in following:
        names = expression.names()
        found[dim] = names_behind(spec, names).union(*(found[name] for name in names if name in found))
    return found


def parameters_behind(spec: KernelSpec, names: Sequence[str]) -> frozenset[str]:
    """The parameters that decide numbers made of these names, of dims that follow from others as well."""
    of_sizes = parameters_of_sizes(spec)
    return names_behind(spec, names).union(*(of_sizes.get(name, frozenset()) for name in names))


def constant_values(spec: KernelSpec) -> dict[str, int]:
    """What an expression may use before the kernel runs: the parameters, and the dims of one fixed size."""
    return {**fixed_dims(spec), **resolve_params(spec)}


def fixed_dims(spec: KernelSpec) -> dict[str, int]:
    return {name: dim.value for name, dim in spec.dims.items() if dim.value is not None}


def complete_sizes(spec: KernelSpec, sizes: Mapping[str, int]) -> dict[str, int]:
    """The sizes of all dims, those that follow from others included; `sizes` has the integer scalars that they follow
    from as well.

    Raises:
        ValueError: one that was given is not what it follows from, or one has no size, as a division by 0 has none.
    """
    known = {**fixed_dims(spec), **sizes}
    params = {name: value for name, value in constant_values(spec).items() if name in spec.params}
    for name, expression in derivations(spec):
        try:
            value = int(expression.evaluate({**params, **known}))
        except EvaluationError as error:
            raise ValueError(f"{spec.name}: {name} has no size: {error} in {expression}.") from None
        if known.setdefault(name, value) != value or value < 0:
            raise ValueError(f"{spec.name}: {name} is {known[name]}, but {expression} is {value}.")
    return known


def derivations(spec: KernelSpec) -> list[tuple[str, Expression]]:
    """The dims whose size follows from others, and from what, each behind those that it follows from.

    Raises:
        CyclicParams: one follows from itself.
    """
    found: dict[str, Expression] = {}
    for name in spec.dims:
        _derive(spec, name, [], found)
    return list(found.items())


def _derive(spec: KernelSpec, name: str, pending: list[str], found: dict[str, Expression]) -> None:
    """Put what the size of a dim follows from into `found`, behind that of those that it follows from."""
    expression = spec.dims[name].equals if name in spec.dims else None
    if expression is None or name in found:
        return
    if name in pending:
        raise CyclicParams(spec.where("dims", name, "equals"), pending[pending.index(name) :])
    for other in expression.names():
        _derive(spec, other, [*pending, name], found)
    found[name] = expression


def names_of_calls(spec: KernelSpec) -> frozenset[str]:
    """The names in what is computed of every call before it is launched: sizes, assumptions and conditions of cases."""
    overrides = [over for settings in spec.targets.values() for over in (settings, *settings.cases)]
    written = [dim.equals for dim in spec.dims.values() if dim.equals is not None]
    for constraints in (spec.constraints, *(over.constraints or () for over in overrides)):
        written += [one.condition for one in constraints if isinstance(one, Assume)]
    written += [one for settings in spec.targets.values() for case in settings.cases for one in case.all_asked]
    return frozenset(name for one in written for name in one.names())


def evaluate_constant(spec: KernelSpec, expression: Expression, where: Where, values: Mapping[str, int]) -> int | bool:
    """The value of `expression`, written at `where`, over `values`.

    Raises:
        WavespecError: it has none; the caret is at the part that is to blame.
    """
    for node in expression.walk():
        name = getattr(node, "name", None)
        if name is None or name in values:
            continue
        place = part_of(where, node)
        if name in spec.dims:
            hint = f"Give the dim a size ({name}: {{value: ...}}), or use a parameter."
            message = f"{quote(name)} is a dim of any size, known only when the kernel is called."
            raise NoConstantValue(place, message, hints=[hint], about=[name])
        if name in spec.scalars:
            message = f"{quote(name)} is a scalar, known only when the kernel is called."
            raise NoConstantValue(place, message, hints=["Use a parameter."], about=[name])
        raise UndefinedName(place, name, "a parameter", [*spec.params, *fixed_dims(spec)])
    try:
        return expression.evaluate(values)
    except EvaluationError as error:
        bound = [f"{name} = {values[name]}" for name in expression.names()]
        message = f"{quote(str(expression))} has no integer value: {error}."
        raise NoConstantValue(part_of(where, error.node), message, notes=[", ".join(bound)] if bound else []) from None


def part_of(where: Where, node: Expression) -> Where:
    """Where in the expression written at `where` its part `node` is."""
    return where.part(*node.at) if where is not None and not isinstance(where, str) else where


def _resolve(spec: KernelSpec, name: str, values: dict[str, int], pending: list[str]) -> None:
    if name in values:
        return
    where = spec.where("params", name)
    if name in pending:
        raise CyclicParams(where, pending[pending.index(name) :])
    expression = spec.params[name]
    for other in expression.names():
        if other in spec.params:
            _resolve(spec, other, values, [*pending, name])
    value = evaluate_constant(spec, expression, where, {**fixed_dims(spec), **values})
    if isinstance(value, bool):
        message = f"{quote(name)} is a condition; a parameter is an integer."
        raise NoConstantValue(where, message)
    values[name] = value


def override_of(spec: KernelSpec, target: str) -> TargetOverride | None:
    """What a spec says of a target, or of the one that a variant is of."""
    return next((entry for name, entry in spec.targets.items() if name == target_of(target)), None)


def _tensor(tensor: Tensor, override: Override, name: str) -> Tensor:
    over = override.tensors.get(name)
    if over is None:
        return tensor
    moved = tensor.model_copy(update={"space": over.space})
    positions: dict[Path, Position] = {**tensor.positions}
    if ("space",) in over.positions:
        positions[("space",)] = over.positions[("space",)]
    moved.was_written_at(positions)
    return moved


def may_flush(spec: KernelSpec) -> bool:
    """Whether the kernel of some case may take numbers of f32 below the smallest normal one for 0."""
    overrides = [over for one in spec.targets.values() for over in (one, *one.cases)]
    settings = [one.settings for one in spec.constraints if isinstance(one, Hardware)]
    settings += [over.hardware for over in overrides if over.hardware is not None]
    more = (one.settings for over in overrides for one in over.constraints or () if isinstance(one, Hardware))
    return any(one.denormals == "flush" for one in (*settings, *more))


def _constraints(spec: KernelSpec, override: Override) -> tuple[AnyConstraint, ...]:
    constraints = spec.constraints if override.constraints is None else override.constraints
    if override.hardware is None:
        return constraints
    changed = Hardware(settings=override.hardware)
    changed.was_written_at({(): Position(override.hardware.span)} if override.hardware.span else {})
    for index, constraint in enumerate(constraints):
        if isinstance(constraint, Hardware):
            return (*constraints[:index], changed, *constraints[index + 1 :])
    return (*constraints, changed)
