"""What lacks an empty dim of the grid is computed all the same, on this machine's CPU."""

from __future__ import annotations

import pytest
import torch

from tests.kernels import tensors_of
from tests.ops.empty_grids import EMPTY_GRIDS, EmptyGrid
from wavespec.pipeline import compile


@pytest.mark.parametrize("case", [case for case in EMPTY_GRIDS if "cpu" in case.only], ids=str)
def test_a_value_without_the_empty_dim_is_written(case: EmptyGrid) -> None:
    kernel = compile(case.spec)
    for _ in range(20):
        used = torch.full((70,), float("nan"))
        del used  # the next tensor of its size has its memory
        inputs = case.inputs
        results = kernel(*inputs)
        assert torch.equal(inputs[2] if case.combines else tensors_of(results)[0], case.expected)
