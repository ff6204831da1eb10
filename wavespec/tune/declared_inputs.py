"""A spec and the sizes of a call go in; what each of its inputs has to hold, as numbers, comes out."""

from __future__ import annotations

from collections.abc import Mapping

from wavespec.schema import KernelSpec
from wavespec.schema.checking.check_values import BadValues
from wavespec.schema.language.expressions import EvaluationError, Expression
from wavespec.schema.language.values import Number, bound_value
from wavespec.schema.resolve import resolve_params
from wavespec.tune.held_numbers import Held
from wavespec.tune.integer_inputs import Meaning, meanings


def held_by_inputs(
    spec: KernelSpec, sizes: Mapping[str, int], scalars: Mapping[str, Number] | None = None
) -> dict[str, Held]:
    """What the `values` of each input say; else what the graph uses its integers for. Others hold anything.

    Args:
        sizes: of all dims.
        scalars: numbers of a call, which bounds may name.

    Raises:
        BadValues: a bound that these sizes give no value.
    """
    numbers: dict[str, Number] = {**resolve_params(spec), **(scalars or {}), **sizes}
    meant = meanings(spec)
    found: dict[str, Held] = {}
    for name, tensor in spec.tensors.items():
        if tensor.role == "output":
            continue
        if tensor.values is not None:
            found[name] = _declared(spec, name, numbers)
        elif name in meant:
            found[name] = _guessed(meant[name], sizes)
    return found


def _declared(spec: KernelSpec, name: str, numbers: Mapping[str, Number]) -> Held:
    tensor = spec.tensors[name]
    values = tensor.values
    assert values is not None

    def bound(field: str, expression: Expression | None) -> Number | None:
        try:
            return None if expression is None else bound_value(expression, numbers)
        except EvaluationError as error:
            where = spec.where("tensors", name, "values", field)
            raise BadValues(where, f"'{expression}' has no value in this call: {error}.") from None

    order = values.order or ""
    axis = tensor.shape.index(values.along) if values.along else len(tensor.shape) - 1
    matrix = tuple(tensor.shape.index(dim) for dim in values.positive_definite or ())
    return Held(bound("min", values.min), bound("max", values.max), order, axis if order else -1, matrix)


def _guessed(meaning: Meaning, sizes: Mapping[str, int]) -> Held:
    size = sizes[meaning.dim]
    match meaning.use:
        case "places":
            return Held(0, size - 1)
        case "counts":
            return Held(0, size)
        case "starts":
            return Held(0, size, "sorted")
