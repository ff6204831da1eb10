"""The scalars of a kernel go in; names that no argument can have, and defaults that are none, come out."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from wavespec.diagnostics import WavespecError, Where, quote
from wavespec.schema.language.errors import BadName
from wavespec.schema.language.expressions import Expression, Name, Num
from wavespec.schema.language.models import KernelSpec
from wavespec.schema.language.scalars import Scalar, number_problem
from wavespec.schema.resolve import UndefinedName, part_of

_TAKEN = {
    "out": "is where results go in every call",
    "compute": "is what 'reference' computes in",
}


class BadScalar(WavespecError, code="bad-scalar"):
    """The default or a limit of a scalar is no number that it can have."""


class NotAnInteger(WavespecError, code="not-an-integer"):
    def __init__(self, where: Where, name: str, dtype: str) -> None:
        super().__init__(
            where,
            f"Sizes, places and conditions on them are whole numbers; the scalar {quote(name)} is {dtype}.",
            hints=["Give it the dtype i32 or i64, or compare it in the graph."],
        )


class Fraction(WavespecError, code="not-an-integer"):
    def __init__(self, where: Where, number: float) -> None:
        super().__init__(
            where,
            f"Sizes, places and conditions on them are whole numbers, not {number}.",
            hints=["Divide with '//', which rounds down."],
        )


def check_scalars(spec: KernelSpec, broken: Collection[str]) -> Iterator[WavespecError]:
    for name, scalar in spec.scalars.items():
        if name in _TAKEN or name == spec.name:
            problem = _TAKEN.get(name, "is the kernel itself, in generated code")
            yield BadName(spec.where_key("scalars", name), name, f"{problem}; a scalar needs another name")
        yield from _limits(spec, name, scalar)
        if isinstance(scalar.default, Expression):
            yield from _computed(spec, name, scalar, scalar.default, broken)


def refuse_fraction(spec: KernelSpec, expression: Expression, where: Where) -> Iterator[WavespecError]:
    """The scalars and numbers in an expression of sizes, written at `where`, that are of floating point."""
    for node in expression.walk():
        if isinstance(node, Num) and isinstance(node.value, float):
            yield Fraction(part_of(where, node), node.value)
        if isinstance(node, Name) and node.name in spec.scalars and spec.scalars[node.name].is_float:
            yield NotAnInteger(part_of(where, node), node.name, spec.scalars[node.name].dtype)


def _limits(spec: KernelSpec, name: str, scalar: Scalar) -> Iterator[WavespecError]:
    bare = scalar.model_copy(update={"min": None, "max": None})
    is_sound = True
    for field, what in (("min", "smallest number"), ("max", "largest number")):
        limit = getattr(scalar, field)
        if limit is None:
            continue
        problem = "but it has no order" if scalar.dtype == "bool" else number_problem(bare, limit)
        if problem:
            is_sound = False
            yield BadScalar(spec.where("scalars", name, field), f"The {what} of {quote(name)} is {limit}, {problem}.")
    if is_sound and scalar.min is not None and scalar.max is not None and scalar.max < scalar.min:
        is_sound = False
        message = f"{quote(name)} is at least {scalar.min} and at most {scalar.max}: no number fits."
        yield BadScalar(spec.where("scalars", name, "max"), message)
    if is_sound and scalar.number is not None and (problem := number_problem(scalar, scalar.number)):
        message = f"The default of {quote(name)} is {_shown(scalar.number)}, {problem}."
        yield BadScalar(spec.where("scalars", name, "default"), message)


def _computed(
    spec: KernelSpec, name: str, scalar: Scalar, default: Expression, broken: Collection[str]
) -> Iterator[WavespecError]:
    """What is wrong with a default that is computed of the sizes of a call."""
    where = spec.where("scalars", name, "default")
    if default.is_condition:
        yield BadScalar(where, f"{quote(str(default))} is a condition; a default is a number.")
    elif not scalar.is_float:
        message = f"{quote(name)} is {scalar.dtype}, of which sizes may follow; its default is a number."
        yield BadScalar(where, message, hints=["Write a number, or leave it out: then every call says it."])
    elif not default.names():
        message = f"{quote(str(default))} names no dim, and is the same in every call."
        yield BadScalar(where, message, hints=["Write the number."])
    dims = [dim for dim, one in spec.dims.items() if one.equals is None]
    for node in default.walk():
        if not isinstance(node, Name) or node.name in dims or node.name in broken:
            continue
        place = part_of(where, node)
        if node.name in spec.dims:
            message = (
                f"The size of {quote(node.name)} follows from others; a default is computed of sizes of arguments."
            )
            yield BadScalar(place, message, hints=[f"Write {quote(str(spec.dims[node.name].equals))}."])
        elif node.name in (*spec.params, *spec.scalars, *spec.tensors):
            message = f"{quote(node.name)} is no dim; a default is computed of the sizes of a call."
            yield BadScalar(place, message)
        else:
            yield UndefinedName(place, node.name, "a dim", dims)


def _shown(number: object) -> str:
    return str(number).lower() if isinstance(number, bool) else str(number)
