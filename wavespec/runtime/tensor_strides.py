"""Tensors of a call go in; where their elements are, in numbers, comes out, or an error that names the tensor whose
strides are others than the kernel takes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Final

import torch
from torch import Tensor

from wavespec.ir.dtype import DTYPES as _ELEMENT_TYPES
from wavespec.ir.strided import (
    LARGEST_STRIDE,
    contiguous_strides,
    numbers_of_tensor,
    overlaps_itself,
    span_elements,
    stride_together,
    strides_that_bind,
)
from wavespec.runtime.argument_errors import ArgumentError
from wavespec.runtime.artifact import KernelArtifact, TensorParameter, with_dense_names
from wavespec.runtime.overlap import may_overlap_itself
from wavespec.runtime.size_expr import as_text, evaluate

DTYPES: Final[dict[str, torch.dtype]] = {name: getattr(torch, dtype.torch) for name, dtype in _ELEMENT_TYPES.items()}
"""What a spec calls an element type, and what torch calls it, or the bytes that several elements share."""

Placed = tuple[Sequence[int], Sequence[int]]
"""Shape and strides of a tensor, in the dims of the kernel."""


def numbers_of_call(
    artifact: KernelArtifact, inputs: Sequence[Tensor], outputs: Sequence[Any], sizes: dict[str, int]
) -> dict[str, int]:
    """Where the elements of strided tensors are; a result that is made, or of another shape, counts as dense."""
    placed = _placed(artifact, (*inputs, *outputs), sizes)
    names = bind_strides(artifact, placed).values
    try:
        found = artifact.dense({**sizes, **names})
    except ArithmeticError as error:
        raise no_value(artifact, "strides follow from sizes", error, sizes) from None
    named = {**sizes, **found}
    for parameter, tensor in zip(artifact.tensors, (*inputs, *outputs), strict=False):
        if parameter.is_strided and parameter.name in placed:
            shape, strides = placed[parameter.name]
            if are_promised := bool(parameter.promised):
                strides = parameter.dense_strides(named)
            address = 0 if tensor.device.type == "meta" else tensor.data_ptr()
            bytes_ = DTYPES[parameter.dtype].itemsize
            found |= numbers_of_tensor(
                parameter.name, parameter.dim_names, shape, strides, address, bytes_, are_promised=are_promised
            )
    return found


def check_strides(where: str, artifact: KernelArtifact, parameter: TensorParameter, tensor: Tensor) -> None:
    """Of a tensor that is not copied, where it is written or where the spec says so."""
    copy = "" if parameter.written or parameter.promised else f"; pass {parameter.name}.contiguous()"
    has = f"{where} has strides {tuple(tensor.stride())}"
    if not parameter.is_strided:
        if not tensor.is_contiguous():
            raise ArgumentError(f"{has}, expected a contiguous tensor{copy}.")
        return
    shape, strides = _in_dims(artifact, parameter, tensor)
    if strides is None:
        dim = parameter.dims[0]
        raise ArgumentError(f"{has}, by which the dims in place of '{dim}' have no stride together{copy}.")
    if tensor.numel() and shape[-1:] > (1,) and strides[-1] != 1:
        raise ArgumentError(f"{has}, expected 1 along '{parameter.dims[-1]}', its last dim{copy}.")
    if parameter.written and may_overlap_itself(tensor):
        raise ArgumentError(f"{has}, by which elements may share memory; expected each at a place of its own.")
    if tensor.numel() and tensor.data_ptr() % tensor.element_size():
        copy = "" if parameter.written else f"; pass {parameter.name}.clone()"
        bytes_ = tensor.element_size()
        raise ArgumentError(f"{where} starts at no multiple of the {bytes_} bytes of an element{copy}.")


def check_promised(
    artifact: KernelArtifact,
    parameter: TensorParameter,
    tensor: Tensor,
    tensors: Sequence[Tensor],
    sizes: Mapping[str, int],
    label: str | None = None,
) -> None:
    """Of a tensor whose strides the spec has written down; ``tensors``: those of the call that may bind names."""
    where = f"{artifact.name}: argument '{label or parameter.name}'"
    _check_possible(where, parameter, sizes)
    owners = bind_strides(artifact, _placed(artifact, tensors, sizes)).owners
    shape, strides = _in_dims(artifact, parameter, tensor)
    assert strides is not None
    for problem in other_strides(parameter, (shape, strides), sizes, owners):
        raise ArgumentError(f"{where} {problem}.")


def results_of_call(
    artifact: KernelArtifact, inputs: Sequence[Tensor], sizes: Mapping[str, int]
) -> tuple[tuple[tuple[int, ...], tuple[int, ...], torch.dtype], ...]:
    """Shape, strides and type of every result that a call makes.

    Errors: `ArgumentError` for strides by which elements of it would share memory.
    """
    found: list[tuple[tuple[int, ...], tuple[int, ...], torch.dtype]] = []
    leading = leading_shapes(artifact, inputs)
    for parameter in artifact.outputs:
        shape = shape_of_call(parameter, parameter.shape(sizes), leading)
        strides: tuple[int, ...] | None = contiguous_strides(shape)
        if parameter.promised:
            _check_possible(f"{artifact.name}: result '{parameter.name}'", parameter, sizes)
            strides = strides_of_result(parameter, shape[: len(shape) - len(parameter.dims) + 1], sizes)
        if strides is None:
            named = ", ".join(map(as_text, parameter.promised))
            raise ArgumentError(
                f"{artifact.name}: result '{parameter.name}' of shape {shape_text(shape)} would have strides "
                f"({', '.join(map(str, parameter.dense_strides(sizes)))}) = ({named}), by which elements share memory; "
                "expected each at a place of its own."
            )
        found.append((shape, strides, DTYPES[parameter.dtype]))
    return tuple(found)


def leading_shapes(artifact: KernelArtifact, inputs: Sequence[Tensor]) -> dict[str, tuple[int, ...]]:
    """What the inputs of a call have in place of each dim that stands for leading ones."""
    if not (dims := artifact.leading_dims):
        return {}
    pairs = zip(artifact.inputs, inputs, strict=True)
    return {
        str(parameter.dims[0]): parameter.leading(tensor.shape)
        for parameter, tensor in pairs
        if dims.intersection(parameter.dims)
    }


def shape_of_call(
    parameter: TensorParameter, shape: tuple[int, ...], leading: Mapping[str, tuple[int, ...]]
) -> tuple[int, ...]:
    """The ``shape`` of a tensor of the kernel as a call has it, with ``leading`` in place of dims that stand for it."""
    first = leading.get(str(parameter.dims[0])) if parameter.dims else None
    return shape if first is None else (*first, *shape[1:])


@dataclass(frozen=True, slots=True)
class BoundStrides:
    """The names of strides that tensors of a call bind, and of each the tensor and the dim that do."""

    values: Mapping[str, int]
    owners: Mapping[str, tuple[str, str]]


def bind_strides(artifact: KernelArtifact, placed: Mapping[str, Placed]) -> BoundStrides:
    """What the tensors that are ``placed`` bind, inputs first; of several with a name the first does."""
    names, values, owners = artifact.stride_names, dict[str, int](), dict[str, tuple[str, str]]()
    for parameter in artifact.tensors if names else ():
        if parameter.promised and parameter.name in placed:
            own = [one if isinstance(one, str) and one in names else None for one in parameter.promised]
            for axis, name, stride in strides_that_bind(*placed[parameter.name], own):
                if name not in values:
                    values[name], owners[name] = stride, (parameter.name, str(parameter.dims[axis]))
    return BoundStrides(values, owners)


def other_strides(
    parameter: TensorParameter, placed: Placed, sizes: Mapping[str, int], owners: Mapping[str, tuple[str, str]]
) -> Iterator[str]:
    """In words, what a tensor has in place of the strides that it has to have, along dims of several elements."""
    shape, strides = placed
    for axis, (size, stride) in enumerate(zip(shape, strides, strict=True)):
        expected = evaluate(promise := parameter.promised[axis], sizes)
        if 0 not in shape and size > 1 and stride != expected:
            is_number = isinstance(promise, int)
            said = str(expected) if is_number else f"{as_text(promise)} = {expected}"
            owner = owners.get(promise) if isinstance(promise, str) else None
            whose = "" if owner is None else f", as '{owner[0]}' has along '{owner[1]}'"
            yield f"has stride {stride} along '{parameter.dims[axis]}', expected {said}{whose}"


def impossible_strides(parameter: TensorParameter, sizes: Mapping[str, int]) -> Iterator[str]:
    """In words, what no tensor has of the strides that one has to have."""
    for promise in parameter.promised:
        if not 0 <= (value := evaluate(promise, sizes)) <= LARGEST_STRIDE:
            yield f"has a stride {as_text(promise)} = {value}, expected at least 0 and at most {LARGEST_STRIDE}"


def strides_of_result(
    parameter: TensorParameter, leading: Sequence[int], sizes: Mapping[str, int]
) -> tuple[int, ...] | None:
    """The strides of a new tensor, with ``leading`` sizes in place of its first dim; None where two of its elements
    would be at one place."""
    strides = _with_leading(leading, parameter.dense_strides(sizes))
    return None if overlaps_itself((*leading, *parameter.shape(sizes)[1:]), strides) else strides


def _with_leading(leading: Sequence[int], strides: tuple[int, ...]) -> tuple[int, ...]:
    """The ``strides`` in the dims of the kernel with one for each of the ``leading`` dims in place of the first."""
    outer = list(strides[:1])
    for size in reversed(leading[1:]):
        outer.insert(0, outer[0] * max(size, 1))
    return (*outer[: len(leading)], *strides[1:])


def _check_possible(where: str, parameter: TensorParameter, sizes: Mapping[str, int]) -> None:
    for problem in impossible_strides(parameter, sizes):
        raise ArgumentError(f"{where} {problem}.")


def _placed(artifact: KernelArtifact, tensors: Sequence[Any], sizes: Mapping[str, int]) -> dict[str, Placed]:
    """Shapes and strides of those tensors, inputs then outputs, that say where their elements are, and are as ``sizes``
    have them."""
    found: dict[str, Placed] = {}
    for parameter, tensor in zip(artifact.tensors, tensors, strict=False):
        if parameter.is_strided and isinstance(tensor, Tensor) and tensor.layout == torch.strided:
            shape, strides = _in_dims(artifact, parameter, tensor)
            if shape == parameter.shape(sizes) and strides is not None:
                found[parameter.name] = shape, strides
    return found


def _in_dims(
    artifact: KernelArtifact, parameter: TensorParameter, tensor: Tensor
) -> tuple[tuple[int, ...], tuple[int, ...] | None]:
    """Shape and strides of a tensor in the dims of the kernel; no strides where leading ones have none together."""
    if not parameter.dims or parameter.dims[0] not in artifact.leading_dims:
        return tuple(tensor.shape), tensor.stride()
    return _together(len(parameter.leading(tensor.shape)), tensor)


def _together(count: int, tensor: Tensor) -> tuple[tuple[int, ...], tuple[int, ...] | None]:
    """Shape and strides of a tensor with its first ``count`` dims as one; no strides where they have none together."""
    shape, strides = tuple(tensor.shape), tensor.stride()
    together = stride_together(shape[:count], strides[:count])
    return (prod(shape[:count]), *shape[count:]), None if together is None else (together, *strides[count:])


def no_value(artifact: KernelArtifact, what: str, error: ArithmeticError, sizes: Mapping[str, int]) -> ArgumentError:
    why = "it divides by 0" if isinstance(error, ZeroDivisionError) else str(error)
    given = ", ".join(f"{name} = {size}" for name, size in sizes.items())
    return ArgumentError(f"{artifact.name}: {what}, but this call has {given}: {why}.")


def shape_text(sizes: Sequence[int]) -> str:
    return "[" + ", ".join(map(str, sizes)) + "]"


def new_result(
    like: Tensor,
    shape: Sequence[int],
    dtype: torch.dtype,
    number: int,
    described: Sequence[TensorParameter],
    inputs: Sequence[Tensor],
    sizes: Mapping[str, int],
) -> Tensor:
    """In a graph of torch, a tensor as a call makes it of these sizes, which may be symbols.

    Args:
        number: which of ``described`` it is, the tensors whose strides are promised: ``inputs``, then results.
    """
    names = {one for tensor in described for one in tensor.promised if isinstance(one, str)} - sizes.keys()
    known = dict(sizes)
    for parameter, tensor in zip(described, inputs, strict=False):
        own = [one if isinstance(one, str) and one in names else None for one in parameter.promised]
        placed, strides = _together(len(parameter.leading(tensor.shape)), tensor)
        for _, name, stride in strides_that_bind(placed, strides or placed, own):
            known.setdefault(name, stride)
    parameter, known = described[number], with_dense_names(described, known)
    outer = shape[: len(shape) - len(parameter.dims) + 1]
    return like.new_empty_strided(shape, _with_leading(outer, parameter.dense_strides(known)), dtype=dtype)


def laid_out(tensor: Tensor, strides: Sequence[int], start: int = 0) -> Tensor:
    """A copy with these strides, behind so many other elements; between them is something."""
    memory = tensor.new_zeros(start + span_elements(tensor.shape, strides))
    return memory.as_strided(tensor.shape, strides, start).copy_(tensor)


def copied(tensor: Tensor) -> Tensor:
    """A copy with the same strides, which `clone` keeps only where nothing is between the elements."""
    return tensor.clone() if tensor.is_contiguous() else laid_out(tensor, tensor.stride())
