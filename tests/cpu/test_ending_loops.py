"""Loops that end early, on this machine's CPU."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.ops.ending_loops import (
    FIRST,
    ROOT,
    SPARSEMAX,
    first_inputs,
    limited,
    limited_inputs,
    root_inputs,
    root_steps,
    sparsemax,
)
from wavespec.pipeline import compile
from wavespec.schema import loads

pytestmark = pytest.mark.usefixtures("tiles_count")


def test_a_walk_ends_at_what_it_looks_for() -> None:
    kernel = compile(loads(FIRST))
    for sizes in ((5, 200), (2, 3), (2, 0), (0, 40)):
        x, expected = map(torch.tensor, first_inputs(*sizes))
        assert torch.equal(kernel(x), expected)


def test_an_iteration_ends_when_nothing_moves() -> None:
    x = root_inputs(4)
    root, steps = compile(loads(ROOT))(torch.tensor(x))
    assert np.allclose(root, np.sqrt(x), rtol=1e-6)
    assert steps.tolist() == root_steps(x).tolist()


def test_products_end_early() -> None:
    kernel = compile(loads(limited(1, "global")))
    for sizes, limit in (((70, 40, 136), 2), ((3, 5, 72), 9), ((65, 1, 64), 0), ((2, 2, 0), 3)):
        a, b, most = map(torch.tensor, limited_inputs(*sizes, limit))
        assert torch.equal(kernel(a, b, most), a.float() @ b.float().T)


def test_a_row_is_walked_over_until_nothing_changes() -> None:
    kernel = compile(loads(SPARSEMAX))
    for sizes in ((3, 70), (1, 1), (0, 5), (40, 200)):
        x = np.random.default_rng(1).normal(size=sizes).astype(np.float32)
        assert np.allclose(kernel(torch.tensor(x)), sparsemax(x), atol=1e-6)
