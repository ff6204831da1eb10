"""What tensors are said to hold goes in; what contradicts itself, the tensor, or can never be, comes out."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping

from wavespec.diagnostics import WavespecError, Where, enumeration, name_hints, quote
from wavespec.ir.dtype import DTYPES
from wavespec.schema.checking.check_scalars import refuse_fraction
from wavespec.schema.language.dtypes import fits, is_float
from wavespec.schema.language.expressions import PLACES, Call, EvaluationError, Expression, Name
from wavespec.schema.language.models import KernelSpec, Tensor
from wavespec.schema.language.values import Number, Values, bound_value, plain_number
from wavespec.schema.resolve import NoConstantValue, UndefinedName, constant_values, part_of

HOLDING = tuple(
    one.name for one in DTYPES.values() if one.bits >= 8 and one.kind != "bool" and (one.mantissa or not one.is_float)
)
"""Types of which bounds can be said: elements have their own bytes, and a sign or an order of whole numbers."""
MATRICES = tuple(one.name for one in DTYPES.values() if one.bits >= 16 and one.is_float)
"""Types that a positive definite matrix stays one in."""


class BadValues(WavespecError, code="bad-values"):
    """What a tensor is said to hold contradicts itself, or is nothing that it can hold."""


def check_values(spec: KernelSpec, broken: Collection[str]) -> Iterator[WavespecError]:
    for name, tensor in spec.tensors.items():
        if tensor.values is not None:
            yield from _check(spec, name, tensor, tensor.values, broken)


def _check(
    spec: KernelSpec, name: str, tensor: Tensor, values: Values, broken: Collection[str]
) -> Iterator[WavespecError]:
    whole = spec.where("tensors", name, "values")
    said = [field for field in type(values).model_fields if getattr(values, field) is not None]
    if tensor.role == "output":
        message = f"{quote(name)} is an output; 'values' are what a call passes."
        yield BadValues(whole, message, hints=["Leave 'values' out."])
    elif tensor.dtype not in HOLDING:
        message = f"'values' are of {enumeration(HOLDING, 'or')}; {quote(name)} is {tensor.dtype}."
        yield BadValues(whole, message)
    elif not said and not any(values.positions):  # what was written and is gone has a report of its own
        message = f"'values' of {quote(name)} say nothing."
        hint = "Write a bound, {min: 0}, or an order, {order: sorted}."
        yield BadValues(whole, message, hints=[hint])
    else:
        yield from _combinations(spec, name, values, said)
        yield from _dims(spec, name, tensor, values, broken)
        yield from _bounds(spec, name, tensor, values, broken)


def _combinations(spec: KernelSpec, name: str, values: Values, said: list[str]) -> Iterator[WavespecError]:
    """What is said beside something that says it already, or says otherwise."""
    first = "positive_definite" if values.positive_definite is not None else "order"
    if first == "order" and values.order != "permutation":
        is_alone = values.order is None and ("order",) not in values.positions
        others = ["along"] if is_alone and values.along is not None else []
        problem = "is the dim of an 'order', and there is none"
    else:
        others = [field for field in said if field not in (first, *(("along",) if first == "order" else ()))]
        what = "a permutation" if first == "order" else "a positive definite matrix"
        problem = f"goes with no {what.removeprefix('a ')}, which says all that there is to say"
    for field in others:
        yield BadValues(spec.where_key("tensors", name, "values", field), f"{quote(field)} {problem}.")


def _dims(
    spec: KernelSpec, name: str, tensor: Tensor, values: Values, broken: Collection[str]
) -> Iterator[WavespecError]:
    if values.order is not None and not tensor.shape:
        message = f"{quote(name)} is a single number, which has no order."
        yield BadValues(spec.where("tensors", name, "values", "order"), message)
    if values.order == "permutation" and is_float(tensor.dtype):
        message = f"A permutation is of integers; {quote(name)} is {tensor.dtype}."
        yield BadValues(spec.where("tensors", name, "values", "order"), message)
    named = [(("along",), values.along)] if values.along is not None else []
    named += [(("positive_definite", at), dim) for at, dim in enumerate(values.positive_definite or ())]
    is_known = True
    for path, dim in named:
        if dim not in tensor.shape and dim not in broken:
            is_known = False
            hints = name_hints(dim, tensor.shape, "Its dims are") if tensor.shape else ["It has none."]
            message = f"{quote(dim)} is no dim of {quote(name)}."
            yield BadValues(spec.where("tensors", name, "values", *path), message, hints=hints)
    if values.positive_definite is not None and is_known:
        yield from _matrix(spec, name, tensor, values.positive_definite)


def _matrix(spec: KernelSpec, name: str, tensor: Tensor, dims: tuple[str, str]) -> Iterator[WavespecError]:
    where = spec.where("tensors", name, "values", "positive_definite")
    rows, columns = dims
    if tensor.dtype not in MATRICES:
        message = f"A positive definite matrix is of {enumeration(MATRICES, 'or')}; {quote(name)} is {tensor.dtype}."
        yield BadValues(where, message)
    if rows == columns:
        yield BadValues(where, f"A matrix has two dims, not {quote(rows)} twice.")
    elif rows in spec.dims and columns in spec.dims and not _are_of_one_size(spec, rows, columns):
        hint = f"Write '{columns}: {{equals: {rows}}}' in 'dims'."
        yield BadValues(where, f"{quote(rows)} and {quote(columns)} may differ in size.", hints=[hint])


def _are_of_one_size(spec: KernelSpec, one: str, other: str) -> bool:
    first, second = spec.dims[one], spec.dims[other]
    if first.value is not None and first.value == second.value:
        return True
    return first.equals == Name(other) or second.equals == Name(one)


def _bounds(
    spec: KernelSpec, name: str, tensor: Tensor, values: Values, broken: Collection[str]
) -> Iterator[WavespecError]:
    try:
        known: Mapping[str, int] = constant_values(spec)
    except WavespecError:  # reported where parameters are checked
        known = {}
    found: dict[str, Number] = {}
    for field, bound in (("min", values.min), ("max", values.max)):
        where = spec.where("tensors", name, "values", field)
        problems = list(_names(spec, bound, where, broken)) if bound is not None else []
        yield from problems
        if bound is None or problems or any(one not in known for one in bound.names()):
            continue
        try:
            number = bound_value(bound, known)
        except EvaluationError as error:
            message = f"{quote(str(bound))} has no value: {error}."
            yield NoConstantValue(part_of(where, error.node), message)
            continue
        if not math.isfinite(number) or not fits(number, tensor.dtype):
            yield BadValues(where, f"{quote(name)} never holds {number}, which is no number of {tensor.dtype}.")
        else:
            found[field] = number
    if len(found) == 2 and found["max"] < found["min"]:
        message = f"{quote(name)} holds at least {found['min']} and at most {found['max']}: no number fits."
        yield BadValues(spec.where("tensors", name, "values", "max"), message)


def _names(spec: KernelSpec, bound: Expression, where: Where, broken: Collection[str]) -> Iterator[WavespecError]:
    """What in a bound has no number when a kernel is called."""
    if bound.is_condition:
        yield BadValues(where, f"{quote(str(bound))} is a condition; a bound is a number.")
    if isinstance(bound, Name) and bound.name in spec.scalars:
        if spec.scalars[bound.name].computed is not None:
            message = f"{quote(bound.name)} has a default that follows from sizes; a bound names other scalars."
            yield BadValues(where, message)
        return
    if plain_number(bound) is None:
        yield from refuse_fraction(spec, bound, where)
    known = (*spec.dims, *spec.params, *spec.scalars)
    places = [node for node in bound.walk() if isinstance(node, Call) and node.function in PLACES]
    for node in places:
        message = f"{quote(str(node))} is known inside the graph only; a bound names dims, parameters and scalars."
        yield BadValues(part_of(where, node), message)
    for node in () if places else bound.walk():
        if isinstance(node, Name) and node.name not in known and node.name not in broken:
            yield UndefinedName(part_of(where, node), node.name, "a dim, a parameter or a scalar", list(known))
