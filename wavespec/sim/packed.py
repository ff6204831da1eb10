"""Tensors whose elements share bytes in, tensors of numbers out, and the other way round."""

from __future__ import annotations

import torch
from torch import Tensor

from wavespec.ir.dtype import DTYPES

_MANTISSAS = {"f6e2m3fn": (3, 1), "f6e3m2fn": (2, 3), "f4e2m1fn": (1, 1)}
"""Bits of the mantissa, and the bias of the exponent."""


def unpacked(tensor: Tensor, dtype: str) -> Tensor:
    """The numbers of a tensor of a spec's ``dtype``: f32 for packed floating point, i8 for packed integers; a tensor of
    another type is returned as it is, scales (f8e8m0fnu) as f32."""
    if dtype == "f8e8m0fnu":
        return tensor.float()
    if not DTYPES[dtype].is_packed:
        return tensor
    codes = unpacked_codes(tensor, dtype)
    if dtype == "i4":
        return ((codes ^ 8) - 8).to(torch.int8)
    mantissa, bias = _MANTISSAS[dtype]
    sign = 1 << DTYPES[dtype].bits - 1
    exponent, fraction = (codes & sign - 1) >> mantissa, codes & (1 << mantissa) - 1
    significand = fraction + ((exponent > 0).to(codes.dtype) << mantissa)
    number = significand.double() * torch.exp2(exponent.clamp(min=1).double() - (bias + mantissa))
    return torch.where(codes & sign > 0, -number, number).float()


def unpacked_codes(tensor: Tensor, dtype: str) -> Tensor:
    """The bits of every element, as i16."""
    elements, bytes_ = DTYPES[dtype].packed
    bits = DTYPES[dtype].bits
    groups = _grouped(tensor.contiguous().view(torch.uint8), bytes_)
    words = _joined(groups, 8)
    codes = torch.stack([(words >> place * bits) & 2**bits - 1 for place in range(elements)], -1)
    return codes.flatten(-2).to(torch.int16)


def packed(codes: Tensor, dtype: str) -> Tensor:
    """The bytes, u8, that hold elements of these bits, integers of any type; `unpacked_codes` turned round."""
    elements, bytes_ = DTYPES[dtype].packed
    bits = DTYPES[dtype].bits
    words = _joined(_grouped(codes.long() & 2**bits - 1, elements), bits)
    return torch.stack([(words >> 8 * place) & 255 for place in range(bytes_)], -1).flatten(-2).to(torch.uint8)


def _grouped(tensor: Tensor, size: int) -> Tensor:
    return tensor.long().reshape(*tensor.shape[:-1], tensor.shape[-1] // size, size)


def _joined(groups: Tensor, bits: int) -> Tensor:
    """The numbers of a group as one, the first in the lowest bits."""
    places = torch.arange(groups.shape[-1], device=groups.device) * bits
    return (groups << places).sum(-1)
