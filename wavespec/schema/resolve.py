"""A spec and a target go in; the plain spec of that target, or the integers of its parameters, come out."""

from __future__ import annotations

from collections.abc import Mapping

from wavespec.diagnostics import WavespecError, Where, name_hints, quote
from wavespec.schema.base import Path, Position
from wavespec.schema.constraints import AnyConstraint, Hardware
from wavespec.schema.errors import UnknownTarget
from wavespec.schema.expressions import EvaluationError, Expression
from wavespec.schema.models import TARGETS, KernelSpec, TargetOverride, Tensor


class CyclicParams(WavespecError, code="cyclic-params"):
    def __init__(self, where: Where, cycle: list[str]) -> None:
        chain = " -> ".join([*cycle, cycle[0]])
        super().__init__(where, f"The value of {quote(cycle[0])} depends on itself.", notes=[chain])


class NoConstantValue(WavespecError, code="no-constant-value"):
    """An expression that must be known before the kernel runs is not, or has no exact integer value."""


class UndefinedName(WavespecError, code="undefined-name"):
    def __init__(self, where: Where, name: str, what: str, known: list[str]) -> None:
        hints = name_hints(name, known, "Known here are")
        super().__init__(where, f"{quote(name)} is not {what}.", hints=hints)


def spec_for_target(spec: KernelSpec, target: str) -> KernelSpec:
    """The spec with the overrides of `target` merged in and without `targets`; every part keeps its position.

    Raises:
        UnknownTarget: `target` is no target of wavespec. One that the spec has no entry for is fine.
    """
    if target not in TARGETS:
        raise UnknownTarget(None, target, TARGETS)
    override = next((entry for name, entry in spec.targets.items() if name == target), None)
    if override is None:
        return spec.model_copy(update={"targets": {}})
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
            "targets": {},
        }
    )
    merged.at(positions)
    return merged


def resolve_params(spec: KernelSpec) -> dict[str, int]:
    """Every parameter's integer value.

    Raises:
        WavespecError: an undefined name, a cycle, or a value that is not an integer of 64 bits.
    """
    values: dict[str, int] = {}
    for name in spec.params:
        _resolve(spec, name, values, [])
    return values


def constant_values(spec: KernelSpec) -> dict[str, int]:
    """What an expression may use before the kernel runs: the parameters, and the dims of one fixed size."""
    return {**fixed_dims(spec), **resolve_params(spec)}


def fixed_dims(spec: KernelSpec) -> dict[str, int]:
    return {name: dim.value for name, dim in spec.dims.items() if dim.value is not None}


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
            raise NoConstantValue(place, message, hints=[hint])
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


def _tensor(tensor: Tensor, override: TargetOverride, name: str) -> Tensor:
    over = override.tensors.get(name)
    if over is None:
        return tensor
    moved = tensor.model_copy(update={"space": over.space})
    positions: dict[Path, Position] = {**tensor.positions}
    if ("space",) in over.positions:
        positions[("space",)] = over.positions[("space",)]
    moved.at(positions)
    return moved


def _constraints(spec: KernelSpec, override: TargetOverride) -> tuple[AnyConstraint, ...]:
    constraints = spec.constraints if override.constraints is None else override.constraints
    if override.hardware is None:
        return constraints
    changed = Hardware(settings=override.hardware)
    changed.at({(): Position(override.hardware.span)} if override.hardware.span else {})
    for index, constraint in enumerate(constraints):
        if isinstance(constraint, Hardware):
            return (*constraints[:index], changed, *constraints[index + 1 :])
    return (*constraints, changed)
