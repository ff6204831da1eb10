"""Sums of a step start at zero on CPUs, so that chains of roundings are short."""

from __future__ import annotations

import numpy as np
import pytest

from tests.lower.gemms import NVIDIA
from tests.lower.test_strip_tiles import AVX2, BF16, TILE, below_largest
from wavespec.ir.kernel import Kernel
from wavespec.pipeline import lower
from wavespec.schema import KernelSpec
from wavespec.sim.simt import simulate


def moved() -> KernelSpec:
    """The product of every step is added to sums that the step has moved by the largest product of each row."""
    old = "        - acc: {mma: [weight, v_tile, acc]}"
    return below_largest((old, '        - above: "acc + largest"\n' + old.replace("acc]", "above]")))


def makes_start(kernel: Kernel) -> list[str]:
    """What makes the value that the product with ``v`` starts from."""
    product = next(op for op in kernel.walk() if op.name == "mma" and op["k"] == "N")
    return [op.name for op in kernel.walk() if product.operands[2] in op.results]


def test_product_starts_at_zero_where_waves_take_turns() -> None:
    assert makes_start(lower(moved(), AVX2, after="strip-tiles")) == ["elementwise"]
    assert makes_start(lower(moved(), AVX2, after="sum-apart")) == ["register"]


def test_product_that_adds_to_what_is_carried_stays() -> None:
    before, after = (lower(below_largest(), AVX2, after=name) for name in ("strip-tiles", "sum-apart"))
    assert before == after


def test_sums_start_where_they_are_where_waves_run_together() -> None:
    assert makes_start(lower(moved(), NVIDIA, after="sum-apart")) == ["elementwise"]


@pytest.mark.parametrize("n", [1, 70])
def test_results_are_exact(n: int) -> None:
    random, m, k, d = np.random.default_rng(0), 3, 5, 6
    a, b, v = (random.integers(-2, 3, shape) for shape in ((m, k), (n, k), (n, d)))
    inputs = {name: array.astype(BF16) for name, array in zip("abv", (a, b, v), strict=True)}
    report = simulate(lower(moved(), AVX2), AVX2, inputs, {"M": m, "N": n, "K": k, "D": d})
    assert report.ok, report.render()
    c = np.zeros((m, d))
    for start in range(0, n, TILE):
        products = a @ b[start : start + TILE].T
        largest = products.max(axis=1)[:, None]
        c += largest + (products - largest) @ v[start : start + TILE]
    np.testing.assert_array_equal(report.tensors["c"], c)
