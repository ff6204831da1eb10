"""Kernels for CPUs whose sums beside a product are made before: the numbers, and calls of several sizes in turns."""

from __future__ import annotations

import torch

from tests.cpu.kernels_of_cases import KernelsOfCases
from tests.schema.test_sums_before import APART, DISTANCES
from wavespec.pipeline import best_variant, compile
from wavespec.schema import loads

SIZES = [(100, 70, 90), (65, 30, 300), (7, 5, 3), (800, 20, 33), (128, 128, 0)]


def test_distances_of_whole_numbers_are_exact() -> None:
    kernel = compile(loads(DISTANCES), "cpu")
    for _ in range(2):
        for m, n, k in SIZES:
            x, y = (torch.randint(-8, 9, (rows, k)).float() for rows in (m, n))
            expected = (x.double()[:, None] - y.double()[None]).square().sum(-1)
            assert torch.equal(kernel(x, y).double(), expected), (m, n, k)


def test_rows_may_be_strided_and_start_anywhere() -> None:
    """Kernels before get the memory of the call."""
    kernel = compile(loads(DISTANCES), "cpu")
    x, y = torch.randint(-8, 9, (1 + 90 * 80,)).float()[1:].view(90, 80), torch.randint(-8, 9, (60, 80)).float()
    assert torch.equal(kernel(x, y), (x[:, None] - y[None]).square().sum(-1))


def test_sums_in_loops_of_their_own_are_made_before_as_well() -> None:
    """Few elements, too: tiles of the product once had no room for them."""
    kernel = KernelsOfCases(loads(APART), best_variant("cpu"))
    for m, n, k in ((100, 70, 90), (7, 5, 3)):
        x, y = (torch.randint(-8, 9, (rows, k)).float() for rows in (m, n))
        assert torch.equal(kernel(x, y), (x[:, None] - y[None]).square().sum(-1))
