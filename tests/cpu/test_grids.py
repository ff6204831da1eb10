"""Grids of five axes on this machine's CPU: every element is computed."""

from __future__ import annotations

import pytest
import torch

from tests.lower.test_fold_grid import spec
from wavespec.pipeline import compile
from wavespec.runtime import Kernel


@pytest.fixture(scope="module")
def twice() -> Kernel:
    return compile(spec(4, 3, 2, 1, 0))


@pytest.mark.parametrize("shape", [(7, 3, 2, 5, 17), (1, 1, 1, 1, 1), (2, 0, 3, 1, 4)], ids=str)
def test_five_axes_compute_every_element(twice: Kernel, shape: tuple[int, ...]) -> None:
    x = torch.randn(shape)
    assert torch.equal(twice(x), 2 * x)
