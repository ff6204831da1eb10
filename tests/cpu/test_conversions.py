"""Every element type is read, converted to every other and written on this machine's CPU; single numbers are read."""

from __future__ import annotations

import pytest
import torch

from tests.ops.conversions import COMPUTED, conversions, expected, numbers
from wavespec.pipeline import compile


@pytest.mark.parametrize("dtype", COMPUTED)
def test_numbers_are_converted_as_torch_does(dtype: str) -> None:
    x, only = numbers(dtype)
    for got, right in zip(compile(conversions(dtype))(x, only), expected(x, only), strict=True):
        assert got.dtype == right.dtype
        assert torch.equal(got, right), right.dtype
