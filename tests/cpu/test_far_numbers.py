"""Numbers of a call far outside of all tensors, on this machine's CPU."""

from __future__ import annotations

import pytest
import torch

from tests.kernels import tensors_of
from tests.ops.far_numbers import KERNELS, NUMBERS, expected, numbers, spec_of
from wavespec.pipeline import best_variant, build
from wavespec.runtime.kernel import Kernel
from wavespec.sim.reference import reference


@pytest.mark.parametrize("name", KERNELS)
def test_what_is_multiplied_does_not_come_back(name: str) -> None:
    spec, x = spec_of(name), numbers()
    kernel = Kernel(build(spec, "cpu", only=best_variant("cpu")))
    for far in NUMBERS:
        right = expected(name, x, far)
        assert torch.equal(tensors_of(kernel(x, far=far))[0], right), far
        assert torch.equal(tensors_of(reference(spec, x, far=far))[0].float(), right), far
