"""Blocks with one scale, as OCP MX has them: compared with the formula of the standard, on this machine's CPU."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
import torch
from torch import Tensor

from tests.cpu.kernels_of_cases import KernelsOfCases
from wavespec.pipeline import best_variant, compile
from wavespec.runtime.kernel import Kernel
from wavespec.schema import load
from wavespec.sim.packed import packed, unpacked

SPECS = Path(__file__).parents[2] / "specs"


@pytest.fixture(scope="module")
def quantize() -> Kernel:
    return compile(load(SPECS / "quantize_mxf4.wave.yaml"))


def formula(x: Tensor) -> tuple[Tensor, Tensor]:
    """The bytes of the elements and of the scales, by logarithms, and another implementation of f4."""
    blocks = x.double().reshape(len(x), -1, 32)
    exponent = (blocks.abs().amax(-1).log2().floor() - 2).clamp(min=-127)
    codes = (blocks / torch.exp2(exponent)[..., None]).numpy().astype(ml_dtypes.float4_e2m1fn).view(np.uint8)
    return packed(torch.from_numpy(codes.reshape(x.shape)), "f4e2m1fn"), (exponent + 127).to(torch.uint8)


def test_every_finite_number_is_rounded_as_the_standard_has_it(quantize: Kernel) -> None:
    """Every bf16 that is not subnormal, among others of about its size, with the largest of a block in any place."""
    every = torch.arange(2**15, dtype=torch.int32).to(torch.int16).view(torch.bfloat16)
    every = every[every.isfinite() & (every >= 2.0**-120)]
    random = torch.Generator().manual_seed(0)
    x = every[: every.numel() // 512 * 512].reshape(-1, 512)
    x = torch.where(torch.rand(x.shape, generator=random) < 0.5, x, -x)
    x = x.reshape(-1, 32)[:, torch.randperm(32, generator=random)].reshape(x.shape)
    for found, right in zip(quantize(x), formula(x), strict=True):
        assert torch.equal(found.view(torch.uint8), right)


def test_blocks_without_a_scale_are_nan_and_blocks_of_zeros_zeros(quantize: Kernel) -> None:
    x = torch.ones(4, 64, dtype=torch.bfloat16)
    x[0, 3], x[1, 40], x[2] = float("nan"), float("inf"), 0.0
    x[2, 5] = -0.0
    y, scale = quantize(x)
    nan = torch.tensor([[True, False], [False, True], [False, False], [False, False]])
    assert torch.equal(scale.float().isnan(), nan)
    elements = unpacked(y, "f4e2m1fn")
    assert torch.equal(elements[2], x[2].float())
    assert torch.equal(elements[2].signbit(), x[2].signbit())
    assert torch.equal(elements[3] * scale[3].float().repeat_interleave(32), x[3].float())


def test_what_is_written_is_what_products_read(quantize: Kernel) -> None:
    random = torch.Generator().manual_seed(1)
    x, w = (torch.randint(-6, 7, (rows, 64), generator=random).bfloat16() for rows in (5, 7))
    for one in (x, w):
        one[:, ::32] = 4.0
        one[one.abs() == 5] = 3
    product = KernelsOfCases(load(SPECS / "matmul_mxf4.wave.yaml"), best_variant("cpu"))
    (a, a_scale), (b, b_scale) = quantize(x), quantize(w)
    assert torch.equal(product(a, b, a_scale, b_scale), (x.double() @ w.double().T).bfloat16())
