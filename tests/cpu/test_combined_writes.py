"""Writes that combine, on this machine's CPU: many workgroups at one element, and numbers that are none."""

from __future__ import annotations

from functools import cache

import pytest
import torch

from tests.ops.combined import SIZES, Combined, expected, inputs_of
from wavespec.pipeline import best_variant, build
from wavespec.runtime.kernel import Kernel


@cache
def kernel(case: Combined) -> Kernel:
    return Kernel(build(case.spec, "cpu", only=best_variant("cpu")))


@pytest.mark.parametrize(
    ("combine", "dtype"),
    [
        ("add", "f32"),
        ("add", "f16"),
        ("add", "bf16"),
        ("max", "f32"),
        ("min", "f64"),
        ("add", "i64"),
        ("and", "i32"),
        ("or", "i64"),
        ("xor", "i32"),
    ],
)
def test_every_element_is_combined(combine: str, dtype: str) -> None:
    case = Combined(combine, dtype)
    many = 4000 if dtype[1:] in ("32", "64") else 20  # sums of few small numbers are exact
    for sizes in (SIZES, {"M": many, "N": 33, "V": 2}, {"M": 1, "N": 5, "V": 1}):
        given = inputs_of(case.spec, sizes)
        right = expected(case.spec, given)
        for result, exact in zip(kernel(case)(*given), right, strict=True):
            assert torch.equal(result, exact)


def test_extremes_with_no_number_are_none() -> None:
    case = Combined("max")
    given = inputs_of(case.spec, {"M": 40, "N": 33, "V": 2})
    given[0][0, 3] = given[4][0, 0] = -torch.nan
    for result, exact in zip(kernel(case)(*given), expected(case.spec, [one.clone() for one in given]), strict=True):
        torch.testing.assert_close(result, exact, rtol=0, atol=0, equal_nan=True)
