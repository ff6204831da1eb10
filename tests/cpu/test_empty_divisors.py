"""No call ends the process: places that are divided by the size of an empty dim."""

from __future__ import annotations

import pytest
import torch

from tests.ops.empty_divisors import divided_by_empty
from wavespec.pipeline import compile
from wavespec.sim.reference import reference


@pytest.mark.parametrize("place", ["K % size(M)", "K // size(M)", "(K - 5) % size(M)"])
def test_the_size_of_an_empty_dim_divides_as_one(place: str) -> None:
    spec = divided_by_empty(place)
    kernel, x = compile(spec), torch.arange(20.0)
    for d in (torch.zeros(0), torch.arange(3.0)):
        torch.testing.assert_close(kernel(d, x), reference(spec, d, x).float())
