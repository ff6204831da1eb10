"""Sums of a step start at zero on CPUs, so that chains of roundings are short."""

from __future__ import annotations

import numpy as np
import pytest

from tests.lower.gemms import NVIDIA
from tests.lower.ir_text import Text, lines
from tests.lower.test_strip_tiles import AVX2, BF16, TILE, below_largest
from wavespec.lower.sum_apart import SumApart
from wavespec.pipeline import lower
from wavespec.schema import KernelSpec
from wavespec.sim.simt import simulate

pytestmark = pytest.mark.usefixtures("tiles_count")


def moved() -> KernelSpec:
    """The product of every step is added to sums that the step has moved by the largest product of each row."""
    old = "        - acc: {mma: [weight, v_tile, acc]}"
    return below_largest((old, '        - above: "acc + largest"\n' + old.replace("acc]", "above]")))


STEPS = Text("""
    tile kernel @apart target cpu lanes 1
    symbol N in 0..4096 by 1
    symbol at_N in 0..4064 by 32
    plan "auto" stages 1 group 0
    size N [N]
    memory @a : f16 (M: [12], K: [8]) shared [M/1: 12 by 8, K/1: 8 by 1]
    memory @b : f16 (D: [32], K: [8]) shared [D/1: 32 by 8, K/1: 8 by 1]
""")


def step(*ops: str) -> str:
    """A loop that carries sums, and what a step does beside reading both operands."""
    inside = "\n".join(f"          {op} : tile<M: 12, D: 32, f32>" for op in ops)
    return f"""
        %zero = register {{value = 0.0}} : tile<M: 12, D: 32, f32>
        %sum = iterate %zero {{dim = "N", extent = [N], induction = "at_N", step = [32], unroll = 1}} : tile<M: 12, D: 32, f32> (%acc : tile<M: 12, D: 32, f32>) do
          %a = read {{memory = "a", origin = (("M", [0],), ("K", [0],),)}} : tile<M: 12, K: 8, f16>
          %b = read {{memory = "b", origin = (("D", [0],), ("K", [0],),)}} : tile<D: 32, K: 8, f16>
{inside}
          yield %acc.1
        end
    """


MMA = '{instruction = "fma_f32_12x32x1", k = "K", m = "M", n = "D"}'
TWICE = '%twice = elementwise %acc, %acc {function = "add"}'


def test_product_starts_at_zero_where_waves_take_turns() -> None:
    assert STEPS.after(SumApart(), AVX2, step(TWICE, f"%acc.1 = mma %a, %b, %twice {MMA}")) == lines(
        step(
            TWICE,
            "%twice.1 = register {value = 0.0}",
            f"%twice.2 = mma %a, %b, %twice.1 {MMA}",
            '%acc.1 = elementwise %twice, %twice.2 {function = "add"}',
        )
    )


def test_product_that_adds_to_what_is_carried_stays() -> None:
    kernel = STEPS.kernel(step(TWICE, f"%acc.1 = mma %a, %b, %acc {MMA}"))
    assert SumApart()(kernel, AVX2) is kernel


def test_sums_start_where_they_are_where_waves_run_together() -> None:
    kernel = STEPS.kernel(step(TWICE, f"%acc.1 = mma %a, %b, %twice {MMA}"))
    assert SumApart()(kernel, NVIDIA) is kernel


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
