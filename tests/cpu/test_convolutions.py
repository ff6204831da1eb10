"""Convolutions on this machine's CPU: odd images, strides, paddings and dilations, exact on whole numbers."""

from __future__ import annotations

from functools import cache

import pytest
import torch
import torch.nn.functional as functional

from tests.cpu.kernels_of_cases import KernelsOfCases
from tests.kernels import SPECS
from wavespec.pipeline import best_variant
from wavespec.schema import loads
from wavespec.schema.language.expressions import Num

WINDOWS = [pytest.param((1, 0, 1), marks=pytest.mark.rare), (2, 3, 2)]
"""Stride, padding and dilation; `tests/kernels.py` has the usual ones."""
TYPES = {"bf16": torch.bfloat16, "f32": torch.float32}
PRODUCTS = {"conv2d_nhwc": "bf16", "conv2d_nhwc_f32": "f32"}
LAYERS = {
    "whole cache lines": ((2, 9, 11, 64), (70, 3, 3)),
    "two of them": ((1, 13, 7, 128), (32, 3, 3)),
    "parts of them": ((1, 8, 17, 24), (40, 3, 1)),
    "single channels": ((1, 9, 8, 5), (9, 3, 3)),
    "single pixels": ((3, 7, 7, 192), (33, 1, 1)),
    "four of them": ((1, 5, 6, 256), (9, 3, 3)),
    "eight images": ((8, 7, 5, 64), (33, 3, 3)),
    "sixteen": ((16, 3, 4, 128), (40, 3, 1)),
    "short sums": ((2, 5, 9, 128), (70, 1, 1)),
    "results beyond the caches": ((3, 73, 75, 64), (320, 1, 1)),
    "filters of whole vectors": ((1, 9, 11, 64), (64, 3, 3)),
    "of a tap of three chunks": ((2, 9, 11, 96), (128, 3, 3)),
    "of a pixel of few channels": ((1, 5, 9, 40), (192, 1, 1)),
    "of many": ((1, 5, 9, 320), (64, 1, 1)),
    "of more": ((1, 7, 7, 584), (64, 1, 1)),
    "of more, of many pixels": ((2, 21, 19, 520), (64, 1, 1)),
}
"""Images N, H, W, C and filters O, R, S."""
ROWS = {"conv2d_nchw": "bf16", "conv2d_nchw_f32": "f32"}
"""Kernels of tensors whose rows are rows of images, and their element types."""
ROW_LAYERS = {
    "a vector of pixels in several rows": ((1, 16, 9, 11), (70, 3, 3)),
    "in two images": ((5, 8, 7, 6), (33, 3, 3)),
    "in many": ((9, 8, 3, 2), (8, 3, 3)),
    "in one row": ((2, 24, 5, 70), (9, 3, 3)),
    "single channels": ((2, 5, 9, 8), (9, 3, 2)),
    "single pixels": ((3, 72, 7, 7), (33, 1, 1)),
    "many single pixels": ((2, 136, 28, 29), (70, 1, 1)),
    "of few filters": ((1, 40, 23, 9), (9, 1, 1)),
    "many channels of eight images": ((8, 256, 5, 7), (33, 3, 3)),
    "of sixteen": ((16, 512, 4, 3), (9, 3, 3)),
    "fewer channels of eight": ((8, 64, 9, 7), (33, 3, 3)),
    "of one": ((1, 128, 8, 9), (40, 3, 2)),
    "of three": ((3, 64, 10, 9), (9, 2, 3)),
}
"""Images N, C, H, W and filters O, R, S."""
GROUPED = {
    "several are a matrix": ((2, 9, 11, 64), (48, 3, 3), 4),
    "one is": ((1, 8, 7, 96), (32, 3, 3), 48),
    "odd ones": ((3, 7, 6, 15), (10, 3, 3), 3),
    "vectors of four": ((2, 9, 17, 64), (64, 3, 3), 4),
    "of two": ((1, 8, 7, 32), (32, 3, 3), 8),
    "of one": ((2, 6, 9, 48), (48, 3, 3), 16),
    "more than a workgroup has": ((1, 6, 9, 96), (96, 3, 3), 4),
    "more pairs": ((1, 6, 9, 96), (96, 3, 3), 8),
    "more of one": ((1, 6, 9, 96), (96, 3, 3), 16),
}
"""Images N, H, W, C, filters O, R, S and channels of a group."""
DEPTHWISE = {
    "3 x 3": ((2, 9, 11, 64), (3, 3)),
    "odd channels": ((1, 13, 7, 37), (3, 3)),
    "wide": ((1, 12, 61, 32), (5, 3)),
    "single pixels": ((2, 6, 5, 3), (1, 1)),
    "more channels than a tile": ((2, 9, 5, 544), (3, 3)),
}
"""Images N, H, W, C and filters R, S."""


@cache
def kernel(name: str, windows: tuple[int, int, int], dtype: str = "bf16") -> KernelsOfCases:
    text = (SPECS / f"{name}.wave.yaml").read_text().replace("[bf16, f16, f32]", f"[{dtype}]")
    spec = loads(text, f"{name}.wave.yaml", SPECS)
    params = {**spec.params, **dict(zip(("STRIDE", "PAD", "DILATION"), map(Num, windows), strict=True))}
    return KernelsOfCases(spec.model_copy(update={"params": params}), best_variant("cpu"))


def whole(*shape: int, dtype: str) -> torch.Tensor:
    return torch.randint(-3, 4, shape, generator=torch.Generator().manual_seed(0)).to(TYPES[dtype])


def assert_is_conv2d(
    got: torch.Tensor, x: torch.Tensor, w: torch.Tensor, windows: tuple[int, int, int], groups: int = 1
) -> None:
    stride, padding, dilation = windows
    exact = functional.conv2d(
        x.double(), w.double(), stride=stride, padding=padding, dilation=dilation, groups=groups
    ).to(x.dtype)
    torch.testing.assert_close(got, exact, rtol=0, atol=0)


@pytest.mark.parametrize("windows", WINDOWS)
@pytest.mark.parametrize("name", PRODUCTS)
def test_products_over_windows_are_exact(name: str, windows: tuple[int, int, int]) -> None:
    for images, filters in LAYERS.values():
        x, w = (whole(*shape, dtype=PRODUCTS[name]) for shape in (images, (*filters, images[3])))
        got = kernel(name, windows)(x, w)
        assert isinstance(got, torch.Tensor)
        assert_is_conv2d(got.permute(0, 3, 1, 2), x.permute(0, 3, 1, 2), w.permute(0, 3, 1, 2), windows)


@pytest.mark.parametrize("windows", [(1, 1, 1), (1, 0, 1), (2, 3, 2)])
@pytest.mark.parametrize("name", ROWS)
def test_products_over_rows_are_exact(name: str, windows: tuple[int, int, int]) -> None:
    for images, (outputs, *taps) in ROW_LAYERS.values():
        if min(images[2:]) + 2 * windows[1] <= windows[2] * (max(taps) - 1):
            continue
        x, w = whole(*images, dtype=ROWS[name]), whole(outputs, images[1], *taps, dtype=ROWS[name])
        got = kernel(name, windows)(x, w)
        assert isinstance(got, torch.Tensor)
        assert_is_conv2d(got, x, w, windows)


@pytest.mark.parametrize("windows", WINDOWS)
@pytest.mark.parametrize("dtype", TYPES)
def test_depthwise_windows_are_exact(dtype: str, windows: tuple[int, int, int]) -> None:
    for images, taps in DEPTHWISE.values():
        x, w = whole(*images, dtype=dtype), whole(images[3], *taps, dtype=dtype)
        got = kernel("conv2d_depthwise", windows, dtype)(x, w)
        assert isinstance(got, torch.Tensor)
        assert_is_conv2d(got.permute(0, 3, 1, 2), x.permute(0, 3, 1, 2), w[:, None], windows, images[3])


@pytest.mark.parametrize("windows", WINDOWS)
@pytest.mark.parametrize("dtype", TYPES)
def test_grouped_windows_are_exact(dtype: str, windows: tuple[int, int, int]) -> None:
    for images, filters, channels in GROUPED.values():
        x, w = whole(*images, dtype=dtype), whole(*filters, channels, dtype=dtype)
        got = kernel("conv2d_grouped" if dtype == "bf16" else f"conv2d_grouped_{dtype}", windows)(x, w)
        assert isinstance(got, torch.Tensor)
        groups = images[3] // channels
        assert_is_conv2d(got.permute(0, 3, 1, 2), x.permute(0, 3, 1, 2), w.permute(0, 3, 1, 2), windows, groups)
