"""Branches and loops between bounds on this machine's CPU."""

from __future__ import annotations

import pytest
import torch

from tests.ops.control import LOOPS, RAGGED, Parts, Product, Rows, ragged_inputs
from wavespec.pipeline import compile
from wavespec.schema import loads


@pytest.mark.parametrize("loop", LOOPS)
def test_rows_of_a_triangle(loop: str) -> None:
    kernel = compile(Rows(loop).spec)
    for shape in ((37, 50), (8, 16), (1, 1), (2, 0), (0, 3)):
        x = torch.randint(-9, 10, shape).float()
        assert torch.equal(kernel(x), torch.tensor(Rows(loop).expected(x.numpy())))


@pytest.mark.parametrize("loop", ["branch", "end"])
def test_products_of_a_triangle(loop: str) -> None:
    product = Product(loop=loop, space="global")
    kernel = compile(product.spec)
    for sizes in ((70, 40, 136), (3, 5, 8), (65, 1, 0), (200, 100, 256)):
        a, b = map(torch.tensor, product.operands(sizes))
        assert torch.equal(kernel(a, b), a.float() @ b.float().T)


def test_values_are_bounds_and_conditions() -> None:
    lengths, x, expected = map(torch.tensor, ragged_inputs())
    assert torch.equal(compile(loads(RAGGED))(lengths, x), expected)


def test_workgroups_share_out_the_tiles_of_a_row() -> None:
    kernel = compile(Parts().spec)
    for sizes in ((5, 100, 3), (1, 0, 2), (0, 9, 1)):
        x, first = Parts().inputs(*sizes)
        assert torch.equal(kernel(*map(torch.tensor, (x, first))), torch.tensor(Parts().expected(x, first)))
