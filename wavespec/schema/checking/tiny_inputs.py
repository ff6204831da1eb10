"""A spec and small sizes go in; numbers for its tensors and scalars come out, the same ones every time."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from wavespec.schema.checking.array_values import Array, Unknown, Value, as_type, evaluate, held_as
from wavespec.schema.language.dtypes import is_float
from wavespec.schema.language.models import KernelSpec, Tensor

_SIGNED = 1
"""The draw whose numbers of floating point have signs; those of others are above 0."""


def tiny_inputs(spec: KernelSpec, sizes: Mapping[str, int], params: Mapping[str, int], draw: int) -> dict[str, Array]:
    """What each tensor that is read, or changed in place, holds.

    Floating point is between -1 and 1, or between 0 and 1; integers are small, and within what `values` say.
    """
    known = {**params, **sizes, **{name: int(one.array) for name, one in tiny_scalars(spec).items()}}
    read = [(name, tensor) for name, tensor in spec.tensors.items() if tensor.role != "output"]
    return {
        name: _drawn(tensor, sizes, known, 97 * number + 7919 * draw, draw)
        for number, (name, tensor) in enumerate(read)
    }


def tiny_scalars(spec: KernelSpec) -> dict[str, Value]:
    """Of each scalar its default, or a number within its limits."""
    found: dict[str, Value] = {}
    for name, scalar in spec.scalars.items():
        number = scalar.number
        if number is None:
            number = max(0.5, scalar.min or 0.5) if scalar.is_float else min(max(scalar.limits[0], 1), scalar.limits[1])
        found[name] = Value((), scalar.dtype, np.asarray(number).astype(held_as(scalar.dtype)))
    return found


def _drawn(tensor: Tensor, sizes: Mapping[str, int], known: Mapping[str, int], seed: int, draw: int) -> Array:
    shape = [sizes[dim] for dim in tensor.shape]
    share = _shares(shape, seed)
    values = tensor.values
    if values is not None and values.positive_definite is not None:
        raise Unknown
    axis = tensor.shape.index(values.along) if values is not None and values.along else len(shape) - 1
    if values is not None and values.order == "permutation":
        return np.argsort(share, axis)
    least, most = _bounds(tensor, known, shape, draw)
    number = least + share * (most - least)
    if not is_float(tensor.dtype):
        number = np.floor(least + share * (most - least + 1 - 1e-9))
        if values is not None and values.order == "distinct":
            number = np.ceil(least) + np.argsort(share, axis)
    elif tensor.dtype == "f8e8m0fnu":
        number = np.exp2(np.floor(3 * share) - 1)
    if values is not None and values.order == "sorted":
        number = np.sort(number, axis)
    return as_type(number, tensor.dtype)


def _bounds(tensor: Tensor, known: Mapping[str, int], shape: list[int], draw: int) -> tuple[float, float]:
    """The least and the largest number of a tensor."""
    values = tensor.values
    usual = (
        (-1.0 if draw == _SIGNED else 0.1, 1.0)
        if is_float(tensor.dtype)
        else (0.0, 1.0 if tensor.dtype == "bool" else 3.0)
    )
    given = [None, None] if values is None else [values.min, values.max]
    least, most = (None if one is None else float(evaluate(one, known)) for one in given)
    if least is None:
        least = usual[0] if most is None else min(usual[0], most - 1)
    return least, max(usual[1], least + 1) if most is None else most


def _shares(shape: list[int], seed: int) -> Array:
    """Numbers from 0 to 1 that look random, and are sums of no powers of two, so that hardly any are equal."""
    place = np.arange(int(np.prod(shape)), dtype=np.float64).reshape(shape)
    return np.abs(np.sin(place * 12.9898 + seed) * 43758.5453) % 1
