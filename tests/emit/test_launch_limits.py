"""Kernels of ``specs/`` for sm_90 with more tiles than a GPU launches along any axis but the first."""

from __future__ import annotations

import pytest

from tests.kernels import Sizes, Subject
from wavespec.pipeline import emit
from wavespec.runtime.cuda_launcher import GRID_LIMITS
from wavespec.runtime.launch_plan import make_plan
from wavespec.targets.machine import machines

(HOPPER,) = machines("sm_90")
_IMAGES = {"N": 256, "C": 3, "H": 224, "W": 224, "O": 64, "R": 3, "S": 3}
MANY: list[tuple[str, str, Sizes]] = [
    ("add_broadcast", "add_broadcast", {"M": 300_000, "N": 64}),
    ("add_broadcast", "add_broadcast", {"M": 300_000, "N": 65}),
    ("dropout", "dropout", {"M": 300_000, "N": 64}),
    ("dropout", "dropout", {"M": 70_000, "N": 4}),
    ("silu_and_mul", "silu_and_mul", {"T": 600_000, "N": 32}),
    ("quantize_mxf4", "quantize_mxf4", {"M": 300_000, "K": 32}),
    ("sum_dim", "sum_dim", {"A": 70_000, "N": 8, "B": 64}),
    ("sum_dim", "sum_dim", {"A": 70_000, "N": 70, "B": 4}),
    ("conv2d_nchw", "conv2d_nchw", _IMAGES),
    ("conv2d_nchw", "conv2d_nchw", _IMAGES | {"C": 64, "R": 1, "S": 1, "H": 300}),
    ("conv2d_nchw_f32", "conv2d_nchw_f32", _IMAGES),
    ("gemm_f32", "gemm_f32", {"M": 600_000, "N": 8, "K": 1024}),
    ("gemm_f32", "gemm_f32", {"M": 600_000, "N": 8, "K": 1023}),
]


@pytest.mark.parametrize(("file", "name", "sizes"), MANY)
def test_any_number_of_rows_and_pixels_is_launched(file: str, name: str, sizes: Sizes) -> None:
    subject = Subject(file, name)
    full = subject.complete(sizes)
    interface = emit(subject.cases("sm_90")[subject.case("sm_90", full)].spec, HOPPER).interface
    grid = make_plan(interface, full).grid
    assert all(extent <= limit for extent, limit in zip(grid, GRID_LIMITS, strict=True)), grid
