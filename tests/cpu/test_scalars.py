"""Kernels with scalars on this machine's CPU: every call has the numbers that it passes."""

from __future__ import annotations

import pytest
import torch

from tests.kernels import tensors_of
from tests.ops.scalars import ADDMM, CALLS, WINDOW, Called
from wavespec.pipeline import compile as compiled
from wavespec.runtime.kernel import Kernel


@pytest.fixture(scope="module")
def kernels() -> dict[str, Kernel]:
    """By the text of their specs."""
    return {text: compiled(one.spec) for text, one in {call.text: call for call in CALLS.values()}.items()}


@pytest.mark.parametrize("name", CALLS)
def test_results_are_those_of_torch(kernels: dict[str, Kernel], name: str) -> None:
    call = CALLS[name]
    for _ in range(3):  # in full, then as a call like an earlier one
        call.check(tensors_of(kernels[call.text](*call.inputs(), **call.scalars)))


def test_a_number_is_never_that_of_an_earlier_call(kernels: dict[str, Kernel]) -> None:
    call, kernel = Called(ADDMM, {"M": 3, "N": 5, "K": 8}), kernels[ADDMM]
    a, b, c = call.inputs()
    out = torch.empty(3, 5)
    product = kernel(a, b, c, alpha=1.0, beta=0.0).clone()
    for _ in range(2):
        for alpha in (1.0, 2.0, -0.0, 0.0, 4.0, 1.0):
            assert torch.equal(kernel(a, b, c, alpha=alpha, beta=0.0), product * alpha)
            assert kernel(a, b, c, out=out, alpha=alpha, beta=0.0) is out
            assert torch.equal(out, product * alpha)


def test_the_sign_of_zero_and_numbers_that_are_none_arrive(kernels: dict[str, Kernel]) -> None:
    x = torch.zeros(2, 3)
    kernel = kernels[WINDOW]
    for _ in range(2):
        assert kernel(x, half=-0.0, brain=-0.0, turned=True)[0].signbit().all()
        assert not kernel(x, half=0.0, brain=-0.0, turned=True)[0].signbit().any()
        assert kernel(x, half=float("nan"))[0].isnan().all()
        assert (kernel(x, half=-float("inf"))[0] == -float("inf")).all()


def test_sizes_follow_from_integers(kernels: dict[str, Kernel]) -> None:
    x, kernel = torch.arange(20.0).reshape(2, 10), kernels[WINDOW]
    for start, stop, step in ((0, 10, 1), (3, 8, 2), (9, 2**62, 16), (10, 10, 1), (5, 0, 1)):
        (y, _), right = kernel(x, start=start, stop=stop, step=step, half=0, brain=0), x[:, start:stop:step]
        assert y.shape == (2, len(range(start, min(stop, 10), step)))
        assert torch.equal(y, right)
