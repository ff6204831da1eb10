"""What the loop of attention over whole tiles of keys is made of on CDNA, and what it computes at edges, by an emulator."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from benchmarks.amd_attention import PEER, SPECS, spec_for_head
from tests.amd.amd_gemms import count, figures, loop, require_emulator
from tests.amd.emulated import emulated
from wavespec.schema import KernelSpec, loads
from wavespec.schema.families.load_family import load_family

require_emulator()
pytestmark = pytest.mark.amd


@dataclass(frozen=True, slots=True)
class Attention:
    """Attention for many queries and heads of ``head`` elements."""

    dtype: str = "bf16"
    head: int = 64
    target: str = "gfx942"
    tile: tuple[int, int, int] = (1, 1, 1)

    @property
    def spec(self) -> KernelSpec:
        text = (SPECS / "attention.wave.yaml").read_text(encoding="utf-8")
        return spec_for_head(loads(text.replace("[bf16, f16]", f"[{self.dtype}]")), self.target, self.head)

    def run(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """``softmax(q kᵀ / sqrt(D)) v`` of tensors [heads, rows, D]."""
        heads, rows, head = q.shape
        sizes = {"B": 1, "H": heads, "M": rows, "N": k.shape[1], "D": head, "E": v.shape[2]}
        return emulated(self, sizes, [one[None].contiguous() for one in (q, k, v)])["o"][0]


@dataclass(frozen=True, slots=True)
class Causal(Attention):
    """With keys up to the place of a query alone."""

    @property
    def spec(self) -> KernelSpec:
        member = load_family(SPECS / "attention_masked.wave.yaml").member(f"MASK=causal,DTYPE={self.dtype}")
        return spec_for_head(member.spec, self.target, self.head)


EVERY = [
    (Attention("f16"), 0.75 * PEER),
    (Attention(), 0.95 * PEER),
    (Causal(), 0.95 * PEER),
    (Attention("f16", 128), 0.6 * PEER),
    (Attention(head=128), 0.7 * PEER),
    (Attention(target="gfx950"), 8.2),  # MFMAs of twice the depth
    (Attention(head=128, target="gfx950"), 5.1),
]


@pytest.mark.parametrize(("attention", "most"), EVERY, ids=str)
def test_few_instructions_beside_matrix_products(attention: Attention, most: float) -> None:
    body = loop(attention)
    products = count(body, "v_mfma")
    assert (len(body) - products) / products <= most
    assert count(body, "v_readlane", "v_writelane", "scratch_") == 0
    notes = figures(attention)
    assert (notes["vgpr_spill"], notes["scratch_bytes_per_lane"]) == (0, 0)


@pytest.mark.parametrize("target", ["gfx942", "gfx950"])
def test_whole_tiles_are_read_wide_and_compare_no_places(target: str) -> None:
    body = loop(Attention(target=target))
    assert count(body, "ds_read") == count(body, "ds_read_b64", "ds_read_b128", "ds_read2")
    assert count(body, "ds_write") == count(body, "ds_write_b64", "ds_write_b128", "ds_write2")
    assert count(body, "buffer_load") == count(body, "buffer_load_dwordx2", "buffer_load_dwordx4")
    assert count(body, "v_cmp_gt_i32", "v_cmp_lt_i32") == 0


@pytest.mark.parametrize(("attention", "keys"), [(Attention(), 139), (Attention(head=128), 70)], ids=str)
def test_partial_tiles_and_rows_that_are_no_numbers(attention: Attention, keys: int) -> None:
    random, head = torch.Generator().manual_seed(keys), attention.head - 8
    q, k, v = (torch.randn(1, rows, head, generator=random).bfloat16() for rows in (70, keys, keys))
    q[0, 3, 1] = torch.nan
    q[0, 67] = torch.tensor([-1], dtype=torch.int16).view(torch.bfloat16)  # NaN of all ones
    expected = functional.scaled_dot_product_attention(q.double(), k.double(), v.double()).float()
    actual = attention.run(q, k, v).float()
    assert set(map(int, actual.isnan().all(2).nonzero()[:, 1])) == {3, 67}
    torch.testing.assert_close(actual, expected, equal_nan=True, rtol=2e-2, atol=1e-2)
