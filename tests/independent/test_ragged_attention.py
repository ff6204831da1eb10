"""Attention of ragged batches means what torch's attention of each batch by itself does."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from tests.kernels import SPECS
from wavespec.schema import KernelSpec, load
from wavespec.schema.families.load_family import load_family
from wavespec.sim.reference import reference

STARTS, KEY_STARTS, PREFIX_STARTS = [0, 3, 3, 4, 11], [0, 5, 6, 6, 15], [0, 4, 4, 13, 14]
RAGGED = {member.name: member.spec for member in load_family(SPECS / "attention_ragged.wave.yaml").members}


def packed(rows: int, heads: int, elements: int, *, seed: int) -> Tensor:
    random = torch.Generator().manual_seed(seed)
    return torch.randn(rows, heads, elements, dtype=torch.float64, generator=random)


def attention(q: Tensor, k: Tensor, v: Tensor, *, causal: bool) -> Tensor:
    """Of one batch, as [tokens, heads, elements]; 0 for queries that see nothing."""
    seen = torch.ones(len(q), len(k), dtype=torch.bool).tril(len(k) - len(q) if causal else len(k))
    heads = (one.transpose(0, 1) for one in (q, k, v))
    return scaled_dot_product_attention(*heads, attn_mask=seen, enable_gqa=True).transpose(0, 1).nan_to_num(0)


def computed(spec: KernelSpec, *inputs: Tensor) -> Tensor:
    return reference(spec, *inputs)


@pytest.mark.parametrize("mask", ["full", "causal"])
def test_prefill(mask: str) -> None:
    q, k, v = packed(11, 6, 8, seed=1), packed(15, 2, 8, seed=2), packed(15, 2, 5, seed=3)
    parts = [
        attention(q[a:b], k[c:d], v[c:d], causal=mask == "causal")
        for a, b, c, d in zip(STARTS, STARTS[1:], KEY_STARTS, KEY_STARTS[1:], strict=False)
    ]
    starts = (torch.tensor(one, dtype=torch.int32) for one in (STARTS, KEY_STARTS))
    actual = computed(RAGGED[f"attention_ragged_{mask}"], q, k, v, *starts)
    torch.testing.assert_close(actual, torch.cat(parts))


def test_extend() -> None:
    q, k, v = packed(11, 6, 8, seed=1), packed(11, 2, 8, seed=2), packed(11, 2, 5, seed=3)
    keys, values = packed(20, 2, 8, seed=4), packed(20, 2, 5, seed=5)
    slots = torch.randperm(20, generator=torch.Generator().manual_seed(6), dtype=torch.int32)[:14]
    parts: list[Tensor] = []
    for a, b, c, d in zip(STARTS, STARTS[1:], PREFIX_STARTS, PREFIX_STARTS[1:], strict=False):
        cached = slots[c:d].long()
        every_k, every_v = torch.cat([keys[cached], k[a:b]]), torch.cat([values[cached], v[a:b]])
        parts.append(attention(q[a:b], every_k, every_v, causal=True))
    starts = (torch.tensor(one, dtype=torch.int32) for one in (STARTS, PREFIX_STARTS))
    actual = computed(load(SPECS / "attention_extend.wave.yaml"), q, k, v, keys, values, *starts, slots)
    torch.testing.assert_close(actual, torch.cat(parts))
