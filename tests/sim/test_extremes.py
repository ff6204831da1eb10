"""The larger and the smaller of two numbers, in a simulator, as machines choose: lanes agree on it, whatever their order."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch

from tests.kernels import TORCH, array_to_tensor, tensor_to_array
from wavespec.sim.elements import elementwise

ZEROS = {"maximum": 0.0, "fmax": 0.0, "minimum": -0.0, "fmin": -0.0}


def extremes(function: str, a: Sequence[float], b: Sequence[float], dtype: str) -> torch.Tensor:
    operands = [tensor_to_array(torch.tensor(values, dtype=TORCH[dtype]), dtype) for values in (a, b)]
    return array_to_tensor(elementwise(function, operands), dtype)


@pytest.mark.parametrize("dtype", ["f16", "bf16", "f32", "f64"])
@pytest.mark.parametrize("function", ZEROS)
def test_minus_zero_is_less_than_zero_whichever_comes_first(function: str, dtype: str) -> None:
    chosen = extremes(function, [0.0, -0.0, -0.0], [-0.0, 0.0, -0.0], dtype)
    assert chosen.dtype == TORCH[dtype]
    assert torch.equal(chosen.signbit(), torch.tensor([ZEROS[function], ZEROS[function], -0.0]).signbit())


def test_of_what_is_no_number_an_extreme_is_none_or_the_other_one() -> None:
    a, b = [float("nan"), 1.0], [2.0, float("nan")]
    for function in ("maximum", "minimum"):
        assert extremes(function, a, b, "f32").isnan().all()
    for function in ("fmax", "fmin"):
        assert torch.equal(extremes(function, a, b, "f32"), torch.tensor([2.0, 1.0]))


def test_whole_numbers() -> None:
    for function, expected in (("maximum", [1, 2]), ("minimum", [-3, -5])):
        assert torch.equal(extremes(function, [-3, 2], [1, -5], "i32"), torch.tensor(expected, dtype=torch.int32))
