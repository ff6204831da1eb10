"""What a bias adds to a column is summed where tiles share it, and nowhere else."""

from __future__ import annotations

import numpy as np
import pytest

from tests.lower.gemms import CPU, Gemm
from wavespec.ir.kernel import Kernel
from wavespec.ir.printer import print_kernel
from wavespec.ir.thread_ops import DOT, FOR, MMA
from wavespec.pipeline import lower
from wavespec.sim.elements import Array
from wavespec.sim.simt import simulate

BIASED = "dot4_i8_12x32x4"


def lowered(tile: tuple[int, int, int]) -> Kernel:
    return lower(Gemm("i8", tile, wave=(None, None), mma=BIASED).spec, CPU)


def loops_around_sums(kernel: Kernel) -> list[str]:
    """Of the loops that the sums of columns are in, the outermost first."""
    return [op["induction"] for op in kernel.walk() if op.is_(FOR) and any(one.is_(DOT) for one in op.walk())]


@pytest.mark.parametrize(
    ("tile", "around"),
    [((24, 64, 64), ["at_K", "wave_N", "in_K"]), ((64, 24, 64), ["at_K", "wave_M", "in_K"])],
    ids=["straight", "swapped"],
)
def test_columns_are_summed_in_front_of_the_tiles_that_share_them(
    tile: tuple[int, int, int], around: list[str]
) -> None:
    kernel = lowered(tile)
    assert loops_around_sums(kernel) == around
    products = [op for op in kernel.walk() if op.is_(MMA)]
    assert products
    assert all(product.get("unbiased") for product in products)
    assert [memory.space for memory in kernel.memories if memory.name == "bias_sums"] == ["private"]


@pytest.mark.parametrize("tile", [(12, 32, 64), (12, 64, 64)])
def test_columns_that_one_tile_has_are_summed_beside_its_products(tile: tuple[int, int, int]) -> None:
    kernel = lowered(tile)
    assert not loops_around_sums(kernel)
    assert "unbiased" not in print_kernel(kernel)


def assert_exact(kernel: Kernel, a: Array, b: Array, value: int = 0) -> None:
    sizes = {"M": len(a), "N": len(b), "K": a.shape[1]}
    report = simulate(kernel, CPU, {"a": a, "b": b}, sizes)
    assert not report.findings
    np.testing.assert_array_equal(report.tensors["c"], a.astype(np.int64) @ b.astype(np.int64).T + value)


@pytest.mark.parametrize("value", [0, -3])
@pytest.mark.parametrize("tile", [(24, 64, 64), (64, 24, 64)], ids=["straight", "swapped"])
def test_results_are_exact_whatever_sums_start_at(tile: tuple[int, int, int], value: int) -> None:
    kernel = lower(Gemm("i8", tile, wave=(None, None), mma=BIASED, value=value).spec, CPU)
    assert loops_around_sums(kernel)
    generator = np.random.default_rng(0)
    a, b = (generator.integers(-128, 128, (rows, 144), dtype=np.int8) for rows in (37, 75))
    assert_exact(kernel, a, b, value)


def test_largest_bytes_are_summed_exactly() -> None:
    a, b = np.full((24, 256), -128, np.int8), np.full((64, 256), -128, np.int8)
    b[::2] = 127
    assert_exact(lowered((24, 64, 64)), a, b)
