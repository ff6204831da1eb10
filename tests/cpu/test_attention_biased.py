"""Attention with biases and masks, beside torch's `scaled_dot_product_attention` with `attn_mask`."""

from __future__ import annotations

from math import inf

import pytest
import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from generated.attention_biased import attention_biased

B, H, M, N, D = 2, 3, 70, 56, 24
EXPANDED = {"all pairs": (B, H, M, N), "heads": (1, H, M, N), "batches": (B, 1, M, N), "keys": (B, 1, 1, N)}

pytestmark = pytest.mark.compiles


def operands(dtype: torch.dtype = torch.bfloat16) -> tuple[Tensor, Tensor, Tensor]:
    random = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(B, H, size, D, generator=random).to(dtype) for size in (M, N, N))
    return q, k, v


def exact(q: Tensor, k: Tensor, v: Tensor, mask: Tensor, **scale: float) -> Tensor:
    mask = mask if mask.dtype == torch.bool else mask.double()
    return scaled_dot_product_attention(q.double(), k.double(), v.double(), mask, **scale)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("shape", EXPANDED.values(), ids=EXPANDED)
def test_biases_may_be_expanded(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    q, k, v = operands(dtype)
    bias = (3 * torch.randn(shape, generator=torch.Generator().manual_seed(1))).to(dtype).expand(B, H, M, N)
    torch.testing.assert_close(
        attention_biased(q, k, v, bias=bias).double(), exact(q, k, v, bias), atol=0.02, rtol=0.02
    )


@pytest.mark.parametrize("shape", EXPANDED.values(), ids=EXPANDED)
def test_masks_may_be_expanded(shape: tuple[int, ...]) -> None:
    q, k, v = operands()
    mask = (torch.rand(shape, generator=torch.Generator().manual_seed(1)) < 0.4).expand(B, H, M, N)
    assert mask.any(-1).all()
    torch.testing.assert_close(
        attention_biased(q, k, v, mask=mask).double(), exact(q, k, v, mask), atol=0.02, rtol=0.02
    )


@pytest.mark.parametrize("by", ["bias", "mask"])
def test_a_query_that_sees_no_key_gets_0(by: str) -> None:
    q, k, v = operands()
    mask = torch.arange(M)[:, None] % 4 > torch.arange(N) % 3
    given = mask if by == "mask" else torch.where(mask, 0.5, -inf).bfloat16()
    made = attention_biased(q, k, v, **{by: given.expand(B, H, M, N)})
    assert not made[:, :, ::4].any() and made[:, :, 1::4].any()
    torch.testing.assert_close(made.double(), exact(q, k, v, given), atol=0.02, rtol=0.02)


def test_biases_are_added_to_what_is_scaled() -> None:
    q, k, v = operands()
    bias = torch.randn(M, N, generator=torch.Generator().manual_seed(1)).bfloat16().expand(B, H, M, N)
    made = attention_biased(q, k, v, bias=bias, scale=0.7)
    torch.testing.assert_close(made.double(), exact(q, k, v, bias, scale=0.7), atol=0.02, rtol=0.02)


def test_a_call_gives_one_of_the_two() -> None:
    q, k, v = operands()
    bias, mask = torch.zeros(B, H, M, N).bfloat16(), torch.ones(B, H, M, N, dtype=torch.bool)
    for given in ({}, {"bias": bias, "mask": mask}, {"bias": mask}, {"mask": bias}):
        with pytest.raises((TypeError, ValueError), match="attention_biased"):
            attention_biased(q, k, v, **given)
