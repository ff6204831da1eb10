"""Every code of the element types of 8 bits and less is read, converted, made and written on this machine's CPU."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.ops import small_results as results
from tests.ops.small_types import OUTPUTS, TYPES, check, every_code, expected, small_types
from tests.rungs import often
from wavespec.pipeline import compile

OFTEN = ("f8e4m3fn", "i4")
"""A byte and a part of one; each type takes a compiler some ten seconds."""


@pytest.mark.parametrize("dtype", often(TYPES, OFTEN))
def test_every_code_is_its_number(dtype: str) -> None:
    x = every_code(dtype)
    for name, result in zip(OUTPUTS, compile(small_types(dtype))(x, x), strict=True):
        check(result.numpy(), expected(x, dtype)[name])


@pytest.mark.parametrize("dtype", often(results.TYPES, OFTEN))
def test_results_are_rounded_to_the_nearest_code(dtype: str) -> None:
    x = results.hard_numbers(dtype)
    right = results.right_bytes(x, dtype)
    y, z = (found.view(torch.uint8).numpy() for found in compile(results.small_results(dtype))(x))
    np.testing.assert_array_equal(y, right)
    np.testing.assert_array_equal(z[0], right)
