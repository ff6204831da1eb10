"""Products of f32 whose rows start anywhere, by multiply-adds of workgroups that share out the sums: no wave only copies."""

from __future__ import annotations

import numpy as np
import pytest

from tests.lower.gemms import NVIDIA, Gemm
from wavespec.sim.simt import simulate

SPLIT = Gemm("f32", mma="fma_sums_f32_16x32x4", stages=3, schedule="workgroups: {split: 4}")


@pytest.mark.parametrize(("rows", "columns", "depth"), [(37, 70, 205), (33, 77, 31), (33, 65, 1001)])
def test_workgroups_without_producers_share_out_sums(rows: int, columns: int, depth: int) -> None:
    random = np.random.default_rng(0)
    a, b = (random.integers(-3, 4, (count, depth)).astype(np.float32) for count in (rows, columns))
    sizes = {"M": rows, "N": columns, "K": depth}
    report = simulate(SPLIT.lowered(NVIDIA), NVIDIA, {"a": a, "b": b}, sizes)
    assert report.ok, report.render()
    np.testing.assert_array_equal(report.tensors["c"], a @ b.T)
