"""Rows of a staged tile that steps along its depth shift: found in places, laid down once, copied once."""

from __future__ import annotations

import pytest

from wavespec.ir.dtype import DTYPES
from wavespec.ir.expr import Expr, const, minimum, symbol
from wavespec.ir.kernel import Memory
from wavespec.ops.index_map import index_of
from wavespec.ops.shifted_rows import (
    ShiftedRows,
    period_of,
    shift_of,
    shifted_rows,
    with_shifted_rows,
    with_shifted_slabs,
)

M, K = index_of("M"), index_of("K")
WIDTH = symbol("P", 1)
PIXEL = M + K // 64 % 3


@pytest.mark.parametrize(
    ("places", "expected"),
    [
        ((PIXEL // WIDTH, PIXEL % WIDTH - 1, K % 64), ShiftedRows(64, 3)),
        ((PIXEL // WIDTH + K // 192 % 3, PIXEL % WIDTH, K % 64 + K // 576 * 64), ShiftedRows(64, 3, 3, WIDTH)),
        ((PIXEL // WIDTH + K // 192 - K // 576 * 3, PIXEL % WIDTH, K % 64), ShiftedRows(64, 3, 3, WIDTH)),
        ((PIXEL // WIDTH + K // 192, PIXEL % WIDTH, K % 64), ShiftedRows(64, 3, 3, WIDTH)),
        ((PIXEL // WIDTH % 7 + K // 192 % 3, PIXEL % WIDTH, K % 64), ShiftedRows(64, 3)),
        ((PIXEL // WIDTH + K // 192 % 3, PIXEL // WIDTH, PIXEL % WIDTH, K % 64), None),
        ((PIXEL // WIDTH + K // 192 % 3, PIXEL % 9, K % 64), None),
        ((PIXEL // WIDTH, M % WIDTH, K % 64), None),
        ((PIXEL // WIDTH, PIXEL % WIDTH + K // 64 % 3, K % 64), None),
        ((PIXEL // WIDTH, PIXEL % WIDTH, K % 128), None),
        ((PIXEL // WIDTH, PIXEL % WIDTH, K // 64), None),
        ((PIXEL // WIDTH, (M + K // 192) % WIDTH, K % 64), None),
        ((PIXEL // WIDTH + K // 192 % 3, PIXEL % WIDTH, PIXEL, K % 64), ShiftedRows(64, 3)),
        ((PIXEL // WIDTH + K // 192 % 3, PIXEL % WIDTH, minimum(PIXEL, 5), K % 64), ShiftedRows(64, 3)),
        ((2 * M + K // 64 % 3, K % 64), None),
        ((M // WIDTH, M % WIDTH, K), None),
    ],
    ids=[
        "one row of taps",
        "several lines, and parts of the channels",
        "several lines, as a difference",
        "several lines of all channels",
        "lines below the images",
        "a line that is not shifted",
        "columns of other lines",
        "a row that is not shifted",
        "a column that is shifted again",
        "channels of two taps",
        "a channel for each tap",
        "two shifts",
        "pixels that do not move with their lines",
        "such pixels within a number",
        "every second row",
        "no shift",
    ],
)
def test_shifts_are_found_in_places(places: tuple[Expr, ...], expected: ShiftedRows | None) -> None:
    assert shifted_rows(places, "M", "K", 576) == expected


def test_a_step_along_the_depth_is_the_next_row() -> None:
    tile = Memory("tile", DTYPES["bf16"], ("M", "K"), (const(32), const(576)), "shared", staged=True)
    staged = with_shifted_rows(tile, ShiftedRows(64, 3))
    assert staged is not None and shift_of(staged) == ShiftedRows(64, 3)

    def place(m: int, k: int) -> int:
        return staged.offset({"M": const(m), "K": const(k)}).value

    assert place(3, 5) == place(2, 64 + 5) == place(1, 128 + 5)
    rows = {place(m, k) for m in range(34) for k in (0, 192, 384)}
    assert len(rows) == 34 * 3, "rows of different taps below each other are apart"
    assert {place(m, k) for m in range(32) for k in range(0, 576, 64)} <= rows, "and all that is read is copied"
    assert max(place(m, k) for m in range(36) for k in range(576)) < staged.elements.value


def test_rows_of_several_lines_are_there_once() -> None:
    rows = ShiftedRows(64, 3, 3, symbol("P", 1, 9))
    tile = Memory("tile", DTYPES["bf16"], ("M", "K"), (const(32), const(1152)), "shared", staged=True)
    staged = with_shifted_rows(tile, rows)
    assert staged is not None and staged.shape[0].value >= 32 + 2 + 2 * 9
    assert staged.elements.value == 2 * 64 * staged.shape[0].value
    assert (period_of(staged), period_of(tile_of(ShiftedRows(64, 3)))) == (576, 192)
    assert str(rows.at(K)) == "(K.i//64)%3 + P*((K.i//192)%3)"


def tile_of(rows: ShiftedRows) -> Memory:
    tile = Memory("tile", DTYPES["bf16"], ("M", "K"), (const(32), const(576)), "shared", staged=True)
    staged = with_shifted_rows(tile, rows)
    assert staged is not None
    return staged


def test_a_depth_that_ends_within_a_shift_is_staged_as_it_is() -> None:
    tile = Memory("tile", DTYPES["bf16"], ("M", "K"), (const(32), const(288)), "shared", staged=True)
    assert with_shifted_rows(tile, ShiftedRows(64, 3)) is None


def test_slabs_that_a_unit_swizzles_have_each_row_once() -> None:
    tile = Memory("tile", DTYPES["bf16"], ("M", "K"), (const(192), const(384)), "shared", staged=True)
    staged = with_shifted_slabs(tile, ShiftedRows(64, 3))
    assert staged is not None and shift_of(staged) == ShiftedRows(64, 3)

    def place(m: int, k: int) -> int:
        return staged.unswizzled_offset({"M": const(m), "K": const(k)}).value

    assert place(9, 5) == place(8, 64 + 5) == place(7, 128 + 5)
    assert place(0, 192) == 200 * 64, "rows are copied in whole periods of the swizzle, and slabs begin with one"
    assert max(place(m, k) for m in range(192) for k in range(384)) < staged.elements.value == 2 * 200 * 64


@pytest.mark.parametrize(
    ("rows", "depth"), [(ShiftedRows(32, 3), 96), (ShiftedRows(128, 3), 384), (ShiftedRows(64, 3), 128)]
)
def test_slabs_of_other_widths_are_staged_as_they_are(rows: ShiftedRows, depth: int) -> None:
    tile = Memory("tile", DTYPES["bf16"], ("M", "K"), (const(64), const(depth)), "shared", staged=True)
    assert with_shifted_slabs(tile, rows) is None
