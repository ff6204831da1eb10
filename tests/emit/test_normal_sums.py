"""Sums that the instruction of a product never leaves below the smallest normal number are rounded by an instruction."""

from __future__ import annotations

import pytest
import torch

from wavespec.pipeline import compile, emit
from wavespec.schema import loads
from wavespec.targets.machine import machines

VARIANTS = {machine.variant: machine for machine in machines("cpu")}
ROUNDING = "llvm.x86.avx512bf16.cvtneps2bf16.512"
PRODUCT = """\
apiVersion: wavespec/v1
kind: Kernel
name: rounded
dims: {M: {}, N: {}, K: {max: MOST}}
tensors:
  a: {shape: [M, K], dtype: bf16, space: shared}
  b: {shape: [N, K], dtype: bf16, space: shared}
  c: {shape: [M, N], dtype: bf16, role: output}
constraints:
  - {workgroup: M, tile: 96, axis: 0}
  - {workgroup: N, tile: 64, axis: 1}
  - {tiling: K, tile: 64}
  - {hardware: {mma: auto}}
graph:
  - zero: {register: [M, N], dtype: f32, value: 0}
  - k_loop:
      iterate: K
      carry: {acc: zero}
      body:
        - a_tile: {read: a}
        - b_tile: {read: b}
        - acc: {mma: [a_tile, b_tile, acc]}
  - result: bf16(SUMS)
  - {write: result, to: c}
"""


def text(most: int, sums: str) -> str:
    return PRODUCT.replace("MOST", str(most)).replace("SUMS", sums)


@pytest.mark.parametrize(
    ("variant", "most", "sums", "is_rounded_by_it"),
    [
        ("x86_64_v4_bf16", 64, "k_loop.acc", True),
        ("x86_64_v4_bf16", 640, "k_loop.acc", False),  # blocks are added up in memory
        ("x86_64_v4_bf16", 64, "k_loop.acc + 1", False),
        ("x86_64_v4", 64, "k_loop.acc", False),
    ],
)
def test_only_results_of_the_product_are(variant: str, most: int, sums: str, is_rounded_by_it: bool) -> None:
    module = emit(loads(text(most, sums), "rounded.wave.yaml"), VARIANTS[variant]).text
    assert (ROUNDING in module) == is_rounded_by_it


@pytest.mark.compiles
def test_sums_are_rounded_as_numbers_are() -> None:
    """Ties, infinities and NaN; sums below the smallest normal number are zero on machines with the instruction."""
    kernel = compile(loads(text(64, "k_loop.acc"), "rounded.wave.yaml"))
    bits = torch.arange(256, dtype=torch.int32)
    large = torch.tensor([1.0, -1.0, 1.5, 3e38, float("inf"), float("nan")])
    a = torch.stack([torch.ones(6 * 256), torch.ones(6 * 256)], dim=1).bfloat16()
    a[:, 0] = large.repeat_interleave(256).bfloat16()
    a[:, 1] = (bits.float() / 2**15).repeat(6).bfloat16()
    b = torch.ones(5, 2).bfloat16()
    got = kernel(a, b)
    assert isinstance(got, torch.Tensor)
    expected = (a.float() @ b.float().T).bfloat16()
    torch.testing.assert_close(got, expected, rtol=0, atol=0, equal_nan=True)
