"""Convolutions whose channels fill no vector: whatever the sizes, sums of small integers are exact on this machine."""

from __future__ import annotations

from functools import cache

import pytest
import torch

from tests.kernels import SPECS
from wavespec.pipeline import best_variant, build
from wavespec.runtime import Kernel
from wavespec.schema import loads
from wavespec.schema.language.expressions import Num

pytestmark = pytest.mark.compiles


@cache
def kernel(stride: int) -> Kernel:
    """`conv2d_nhwc_f32` for any sizes."""
    spec = loads((SPECS / "conv2d_nhwc_f32.wave.yaml").read_text(), "conv2d_nhwc_f32.wave.yaml", SPECS)
    cpu = spec.targets["cpu"].model_copy(update={"cases": ()})
    spec = spec.model_copy(update={"params": {**spec.params, "STRIDE": Num(stride)}, "targets": {"cpu": cpu}})
    return Kernel(build(spec, "cpu", only=best_variant("cpu")))


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize(
    ("images", "side", "channels", "filters", "taps"),
    [
        (1, 9, 3, 5, 3),  # runs of 9 elements: two parts in a vector at most
        (2, 7, 3, 17, 7),  # more taps than pixels in a row
        (1, 6, 1, 4, 3),  # runs of 3: more parts
        (2, 5, 2, 4, 1),
        (3, 4, 30, 20, 3),
        (1, 3, 100, 33, 2),
    ],
)
def test_sums_are_exact(stride: int, images: int, side: int, channels: int, filters: int, taps: int) -> None:
    generator = torch.Generator().manual_seed(0)
    x = torch.randint(-4, 5, (images, side, side + 1, channels), generator=generator).float()
    w = torch.randint(-4, 5, (filters, taps, taps, channels), generator=generator).float()
    given = x.permute(0, 3, 1, 2), w.permute(0, 3, 1, 2)
    expected = torch.nn.functional.conv2d(*given, stride=stride, padding=1).permute(0, 2, 3, 1)
    assert torch.equal(kernel(stride)(x, w), expected)
