"""A random spec goes in; the same spec with tensors of any strides, and views to call it with, come out."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from random import Random
from typing import Any
from zlib import crc32

import torch
from torch import Tensor

from tests.fuzz.graph import RandomSpec
from tests.kernels import TORCH, tensor_to_array
from wavespec.ir.dtype import DTYPES
from wavespec.schema import KernelSpec

_TENSOR = re.compile(r"  (\w+): \{shape: \[\w.*\], dtype: (\w+).*\}")
_UNIT = 16
"""Elements that rows begin at multiples of, where a spec asks for that."""


def strided(spec: RandomSpec, random: Random) -> RandomSpec:
    """The spec with `strides: any` in some of its tensors, and promises that rows of some inputs are aligned."""
    lines, columns, inputs, named = list[str](), dict[str, int](), set[str](), set[str]()
    for line in spec.text.splitlines():
        found = _TENSOR.fullmatch(line)
        if found and not DTYPES[found[2]].is_packed and random.random() < 0.7:
            strides = _written(line)
            named |= {found[1]} if strides != "any" else set()
            line = f"{line.removesuffix('}')}, strides: {strides}}}"
            inputs |= set() if "role:" in line else {found[1]}
            columns[found[1]] = random.choice((0, 0, _UNIT, 3 * _UNIT, 1, 8, 13))
        lines.append(line)
    drawn = {
        name: f"  - {{assume: alignment({name}) % {random.choice((2, 4, 8))} == 0}}"
        for name, count in columns.items()
        if name in inputs and count % _UNIT == 0 and random.random() < 0.6
    }
    # A name that no dim of several elements binds is that of dense rows, which are as aligned as their length.
    promises = [promise for name, promise in drawn.items() if name not in named]
    if promises and len(promises) == len(columns):  # all of them in one
        promises = [re.sub(r"alignment\(\w+\)", "alignment()", promises[0])]
    at = lines.index("constraints:") + 1
    return replace(spec, text="\n".join([*lines[:at], *promises, *lines[at:]]) + "\n", columns=columns)


def _written(line: str) -> str:
    """The strides of a tensor: of every second one a name for each, which its text decides, as no draw is left."""
    name, dims = line.split(":", 1)[0].strip(), line[line.index("[") : line.index("]")].count(",")
    if "(" in line or crc32(line.encode()) % 2:
        return "any"
    return f"[{', '.join([*(f'LD_{name}_{dim}' for dim in range(dims)), '1'])}]"


def _rows(shape: tuple[int, ...], columns: int) -> tuple[int, ...]:
    """The shape of what a view is cut out of."""
    length = columns + shape[-1]
    return (*shape[:-1], length if columns % _UNIT else -(-length // _UNIT) * _UNIT)


def view_of(tensor: Tensor, columns: int | None) -> Tensor:
    """The same numbers behind so many columns of longer rows; the tensor itself for None."""
    if columns is None:
        return tensor
    whole = tensor.new_full(_rows(tuple(tensor.shape), columns), 1)
    return whole[..., columns : columns + tensor.shape[-1]].copy_(tensor)


def array_of(tensor: Tensor, columns: int | None, dtype: str) -> Any:
    """The array for the simulator."""
    if columns is None:
        return tensor_to_array(tensor, dtype)
    view = view_of(tensor, columns)
    whole = view.as_strided(_rows(tuple(tensor.shape), columns), view.stride(), 0)
    return tensor_to_array(whole, dtype)[..., columns : columns + tensor.shape[-1]]


def outputs_of(
    spec: KernelSpec, sizes: Mapping[str, int], columns: Mapping[str, int], device: torch.device | str = "cpu"
) -> dict[str, Tensor]:
    """Views for results, of those tensors that have columns in front."""
    return {
        name: view_of(
            torch.zeros([sizes[dim] for dim in tensor.shape], dtype=TORCH[tensor.dtype], device=device), columns[name]
        )
        for name, tensor in spec.tensors.items()
        if tensor.role == "output" and columns.get(name)
    }
