"""Grids of many axes, of shared ones, and in another order, on this machine's CPU: every element is computed."""

from __future__ import annotations

import pytest
import torch

from tests.lower import test_tile_orders as orders
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


@pytest.mark.parametrize("axis", [0, 1])
def test_any_order_computes_every_element(axis: int) -> None:
    twice = compile(orders.spec(orders.ZIG_ZAG, orders.REVERSED, axis))
    for shape in ((22, 50), (3, 3), (0, 4)):
        x = torch.randn(shape)
        assert torch.equal(twice(x), 2 * x)
