"""Torch tensors of a call in, arrays of the simulator out, and back: bytes as they are, or an element in each."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from wavespec.ir.dtype import DTYPES
from wavespec.sim.elements import Array, numpy_dtype
from wavespec.sim.packed import packed, unpacked_codes


def tensor_to_array(tensor: Tensor, dtype: str) -> Array:
    """The same bytes, as elements of a spec's ``dtype``."""
    flat = tensor.contiguous().view(-1)  # a tensor without dims has no view of another element size
    plain = flat.view(torch.uint8 if tensor.dtype != torch.bool else torch.bool).numpy()
    return plain.view(numpy_dtype(DTYPES[dtype])).reshape(tensor.shape)


def tensor_to_elements(tensor: Tensor, dtype: str) -> Array:
    """The same elements, each in bytes of its own."""
    if DTYPES[dtype].is_packed:
        tensor = unpacked_codes(tensor, dtype).to(torch.uint8)
    return tensor_to_array(tensor, dtype)


def array_to_tensor(array: Array, dtype: str) -> Tensor:
    """The same bytes."""
    plain = np.ascontiguousarray(array)
    if DTYPES[dtype].kind == "bool":
        return torch.as_tensor(plain)
    return torch.as_tensor(plain.reshape(-1).view(np.uint8)).view(_torch(dtype)).view(array.shape)


def elements_to_tensor(array: Array, dtype: str) -> Tensor:
    """The same elements, which share bytes where those of the type do."""
    if not DTYPES[dtype].is_packed:
        return array_to_tensor(array, dtype)
    codes = torch.as_tensor(np.ascontiguousarray(array).view(np.uint8))
    return packed(codes, dtype).view(_torch(dtype))


def _torch(dtype: str) -> torch.dtype:
    found = getattr(torch, DTYPES[dtype].torch)
    assert isinstance(found, torch.dtype)
    return found
