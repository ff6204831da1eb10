"""Products without tiles, of any type and layout of operands, on this machine."""

from __future__ import annotations

import pytest
import torch

from tests.cpu.kernels_of_cases import KernelsOfCases
from tests.kernels import tensors_of
from tests.layouts import LAYOUTS, multiplied, product, whole_numbers
from tests.rungs import often
from wavespec.pipeline import best_variant

TYPES = ("bf16", "f16", "f32", "f64", "i8", "u8", "f8e4m3fn", "f8e5m2")
SIZES = [{"M": 3, "N": 70, "K": 200}, {"M": 35, "N": 37, "K": 41}, {"M": 80, "N": 96, "K": 64}]
"""Few rows of many steps, rows that start anywhere, and such that are aligned."""


@pytest.mark.parametrize(
    ("dtype", "layouts"),
    often([(dtype, one) for dtype in TYPES for one in LAYOUTS], lambda one: one[0].startswith("f8")),
)
def test_all_types_and_layouts_are_right(dtype: str, layouts: tuple[str, str]) -> None:
    spec = product(dtype, *layouts)
    kernel = KernelsOfCases(spec, best_variant("cpu"))
    for sizes in SIZES:
        inputs = whole_numbers(spec, sizes)
        (result,) = tensors_of(kernel(*inputs.values()))
        torch.testing.assert_close(result.double(), multiplied(spec, inputs), rtol=0, atol=0)
