"""Boxes of rows that a tensor does not have: rows that are there take less time than zeros."""

from __future__ import annotations

import numpy as np
import pytest

from tests.lower.gemms import NVIDIA, lines, run
from tests.lower.hopper_gemms import ROWS_OF_8, TOGETHER, hopper_gemm, rounded
from wavespec.lower.rows_again import parts_of_rows


def test_a_tile_of_many_rows_is_copied_by_several_boxes() -> None:
    copies = lines(hopper_gemm(schedule=TOGETHER).lowered(NVIDIA, "distribute-copies"), "copy")
    rows, columns = copies
    assert 'again = "M"' in rows and "((64, 64,), (0, 64,),)" in rows, "one of rows 0 to 63, one of 64 to 127"
    assert "again" not in columns, "one box of 64 columns begins with one that is there"


@pytest.mark.parametrize(
    ("height", "parts"), [(64, 1), (80, 2), (128, 2), (144, 2), (176, 2), (208, 2), (256, 2), (72, 1)]
)
def test_boxes_have_all_rows_of_a_swizzle(height: int, parts: int) -> None:
    assert parts_of_rows(height) == parts and height // parts % 8 == 0


@pytest.mark.parametrize("rows", [1, 63, 64, 65, 130, 193, 256])
def test_rows_that_are_there_are_right(rows: int) -> None:
    gemm, sizes = hopper_gemm(schedule=TOGETHER), {"M": rows, "N": 72, "K": 136}
    spec = rounded(gemm)
    report, expected = run(spec, NVIDIA, sizes, kernel=gemm.lowered(NVIDIA))
    assert report.ok, report.render()
    np.testing.assert_array_equal(report.tensors["c"].astype(np.float64), expected.astype(np.float64))


def test_steps_need_their_zeros() -> None:
    """Rows of a tensor along which products sum: what is copied again would be added."""
    turned = hopper_gemm(schedule=TOGETHER, orders=("K, M", "N, K", "M, N"), dims=("multiple_of: 8", *ROWS_OF_8[1:]))
    rows, _ = lines(turned.lowered(NVIDIA, "distribute-copies"), "copy")
    assert "again" not in rows


def test_whole_tiles_and_those_of_a_cluster_have_one_box() -> None:
    whole = hopper_gemm(schedule=TOGETHER, dims=("multiple_of: 128", *ROWS_OF_8[1:]))
    shared = hopper_gemm(schedule="waves: {producers: 1}, workgroups: {cluster: 2, persistent: true}")
    for gemm in (whole, shared):
        assert "again" not in "".join(lines(gemm.lowered(NVIDIA, "distribute-copies"), "copy"))
