"""Tensors whose strides are written one by one go in; entries that no call can have, or tell, come out."""

from __future__ import annotations

from collections.abc import Iterator

from wavespec.diagnostics import WavespecError, Where, quote
from wavespec.ir.strided import LARGEST_STRIDE
from wavespec.schema.checking.check_constraints import PlaceOutsideGraph
from wavespec.schema.checking.check_scalars import refuse_fraction
from wavespec.schema.checking.check_strides import is_number
from wavespec.schema.language.expressions import PLACES, Call, EvaluationError, Expression, Name
from wavespec.schema.language.models import KernelSpec, Tensor
from wavespec.schema.resolve import constant_values, part_of


class BadStrides(WavespecError, code="bad-strides"):
    """Strides that no tensor of a call can have."""


class UnboundStride(WavespecError, code="unbound-stride"):
    def __init__(self, where: Where, name: str) -> None:
        super().__init__(
            where,
            f"No tensor has {quote(name)} itself for a stride, so a call cannot tell it.",
            hints=[f"Write {quote(name)} alone as a stride of a tensor; other names are dims and parameters."],
            about=[name],
        )


def check_named_strides(spec: KernelSpec, broken: frozenset[str]) -> Iterator[WavespecError]:
    """Expects the names of dims and parameters that are defined wrongly in ``broken``."""
    for name, tensor in spec.tensors.items():
        if not isinstance(tensor.strides, tuple):
            continue
        if len(tensor.strides) != len(tensor.shape):
            dims, strides = _count(len(tensor.shape), "dim"), _count(len(tensor.strides), "stride")
            message = f"{quote(name)} has {dims} and {strides}."
            hint = "Write one for each dim, outermost first; the last one is 1."
            yield BadStrides(spec.where("tensors", name, "strides"), message, hints=[hint])
            continue
        for axis, stride in enumerate(tensor.strides):
            where = spec.where("tensors", name, "strides", axis)
            errors = [*_names(spec, stride, where, broken), *refuse_fraction(spec, stride, where)]
            yield from errors or _values(spec, name, tensor, axis, where)


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'s' * (number != 1)}"


def _names(spec: KernelSpec, stride: Expression, where: Where, broken: frozenset[str]) -> Iterator[WavespecError]:
    known = [*spec.dims, *spec.params]
    for node in stride.walk():
        place = part_of(where, node)
        if isinstance(node, Call) and node.function in PLACES:
            yield PlaceOutsideGraph(place, str(node))
        if not isinstance(node, Name) or node.name in (*known, *broken):
            continue
        if is_number(node.name):
            hint = "Give the stride a name, and write that name in both places."
            yield BadStrides(place, f"{quote(node.name)} is for conditions.", hints=[hint])
        elif node.name in spec.scalars:
            yield BadStrides(place, f"{quote(node.name)} is a scalar; strides follow from dims and parameters.")
        elif node.name in spec.tensors:
            yield BadStrides(place, f"{quote(node.name)} is a tensor.", hints=["Give the stride another name."])
        elif node.name not in spec.named_strides:
            yield UnboundStride(place, node.name)
    if stride.is_condition:
        yield BadStrides(where, f"{quote(str(stride))} is a condition; a stride is a number of elements.")


def _values(spec: KernelSpec, name: str, tensor: Tensor, axis: int, where: Where) -> Iterator[WavespecError]:
    """What is wrong with a stride of which the value is known."""
    assert isinstance(tensor.strides, tuple)
    stride = tensor.strides[axis]
    try:
        value = stride.evaluate(constant_values(spec))
    except (WavespecError, EvaluationError):  # It is of a call, or its parameters are wrong, which is said there.
        value = None
    if axis == len(tensor.shape) - 1 and value != 1:
        dim, hint = quote(tensor.shape[axis]), "Write 1 there; in 'shape' the dim comes last that has stride 1."
        yield BadStrides(where, f"The last dim of {quote(name)}, {dim}, has to be dense.", hints=[hint])
    elif value is not None and not 0 <= value <= LARGEST_STRIDE:
        yield BadStrides(where, f"{quote(str(stride))} is {value}; a stride is from 0 to {LARGEST_STRIDE}.")
