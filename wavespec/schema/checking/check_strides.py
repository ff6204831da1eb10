"""Strides of tensors and conditions on them go in; what has no meaning comes out."""

from __future__ import annotations

import re
from collections.abc import Iterator

from wavespec.diagnostics import WavespecError, Where, name_hints, quote
from wavespec.ir.dtype import DTYPES
from wavespec.schema.language.expressions import NUMBERS
from wavespec.schema.language.models import KernelSpec

_NUMBER = re.compile(rf"({'|'.join(NUMBERS)})\((\w+)(?:, (.+))?\)")


class UnknownStride(WavespecError, code="unknown-stride"):
    """A condition on a number that no call has."""


class PackedStrides(WavespecError, code="packed-strides"):
    def __init__(self, where: Where, tensor: str, dtype: str) -> None:
        super().__init__(
            where,
            f"Elements of {quote(tensor)} share bytes, {dtype}, and bytes are no place for strides.",
            hints=["Leave 'strides' out, or write 'strides: contiguous'."],
        )


def check_strides(spec: KernelSpec) -> Iterator[WavespecError]:
    for name, tensor in spec.tensors.items():
        if tensor.is_strided and DTYPES[tensor.dtype].is_packed:
            yield PackedStrides(spec.where("tensors", name, "strides"), name, tensor.dtype)


def is_number(name: str) -> bool:
    """Whether a name is that of a stride or of an alignment, of whatever."""
    return _NUMBER.fullmatch(name) is not None


def check_number(spec: KernelSpec, name: str, where: Where, broken: frozenset[str]) -> Iterator[WavespecError]:
    """What is wrong with the name of a number, written at `where`, which `spec` does not have."""
    found = _NUMBER.fullmatch(name)
    assert found
    _, owner, dim = found.groups()
    tensor = spec.tensors.get(owner)
    if tensor is None:
        if owner not in broken:
            hints = name_hints(owner, list(spec.tensors), "The tensors are")
            yield UnknownStride(where, f"{quote(owner)} is not a tensor.", hints=hints)
    elif dim in (shape := list(tensor.shape)) and dim != shape[-1] and tensor.promised_strides[shape.index(dim) :]:
        stride = tensor.promised_strides[shape.index(dim)]
        message = f"The strides of {quote(owner)} are written beside it: the one along {quote(dim)} is {stride}."
        yield UnknownStride(where, message, hints=[f"Write '{stride}'."])
    elif not tensor.is_strided:
        hint = f"Write 'strides: any' in {quote(owner)}."
        yield UnknownStride(where, f"{quote(owner)} has the strides that its sizes make.", hints=[hint])
    elif dim == tensor.shape[-1]:
        yield UnknownStride(where, f"{quote(dim)} is the last dim of {quote(owner)}: its stride is 1.")
    elif dim not in tensor.shape and dim not in broken:
        hints = name_hints(dim, list(tensor.shape[:-1]), "Its dims with a stride are")
        yield UnknownStride(where, f"{quote(owner)} has no dim {quote(dim)}.", hints=hints)
