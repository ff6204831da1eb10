"""Tiles become the registers of one lane, and every operation its steps."""

from __future__ import annotations

from tests.lower.gemms import AMD, NVIDIA, Gemm, lines

STAGE = "tile-to-thread"
KNOWN = ("multiple_of: 16", "multiple_of: 16", "multiple_of: 32")


def test_smallest_product_of_one_wave() -> None:
    kernel = Gemm(tile=(16, 16, 32), wave=(None, None), dims=KNOWN).lowered(AMD, STAGE)
    assert lines(kernel, "constant", "for", "load", "store", "slice", "mma") == [
        "%zero = constant {value = 0.0} : f32x4",
        '%zero.1 = for %zero {induction = "at_K", lower = [0], step = [32], unroll = 1, upper = [K]} : f32x4 (%acc : f32x4) do',
        '%a = load {memory = "a", offset = [at_K + (lane%4)*8 + K*(wg0*16 + lane//4)]} : f16x8',
        '%b = load {memory = "b", offset = [at_K + (lane%4)*8 + K*(wg1*16 + lane//4)]} : f16x8',
        'store %b {memory = "b.shared", offset = [(lane//4)*32 + xor(lane%4, (lane//8)%4)*8]}',
        'store %a {memory = "a.shared", offset = [(lane//4)*32 + xor(lane%4, (lane//8)%4)*8]}',
        '%a_tile = load {memory = "a.shared", offset = [(lane%16)*32 + xor(lane//16, (lane//2)%4)*8]} : f16x8',
        "%a_tile.1 = slice %a_tile {size = 4, start = 0} : f16x4",
        "%a_tile.2 = slice %a_tile {size = 4, start = 4} : f16x4",
        '%b_tile = load {memory = "b.shared", offset = [(lane%16)*32 + xor(lane//16, (lane//2)%4)*8]} : f16x8',
        "%b_tile.1 = slice %b_tile {size = 4, start = 0} : f16x4",
        "%b_tile.2 = slice %b_tile {size = 4, start = 4} : f16x4",
        '%acc.1 = mma %a_tile.1, %b_tile.1, %acc {instruction = "f32_16x16x16_f16:swapped"} : f32x4',
        '%acc.2 = mma %a_tile.2, %b_tile.2, %acc.1 {instruction = "f32_16x16x16_f16:swapped"} : f32x4',
        'store %zero.1 {memory = "c", offset = [wg1*16 + (lane//16)*4 + N*(wg0*16 + lane%16)]}',
    ]


def test_copies_are_a_group_that_is_closed_and_awaited() -> None:
    kernel = Gemm(tile=(64, 64, 32), dims=KNOWN).lowered(NVIDIA, STAGE)
    names = [line.split()[0] for line in lines(kernel, "copy_async", "async_commit", "async_wait")]
    assert names == ["copy_async"] * 2 + ["async_commit", "async_wait"]


def test_asynchronous_copy_is_awaited_though_a_plain_one_follows_it() -> None:
    kernel = Gemm(tile=(64, 24, 32), wave=(16, 24), dims=KNOWN).lowered(NVIDIA, STAGE)
    names = [line.split()[0] for line in lines(kernel, "copy_async", "store", "async_commit", "async_wait")]
    assert names[:5] == ["copy_async", "copy_async", "store", "async_commit", "async_wait"]


def test_lanes_without_a_place_never_copy_asynchronously() -> None:
    kernel = Gemm(tile=(48, 48, 48), wave=(48, 48), dims=("", "", "multiple_of: 8")).lowered(NVIDIA, STAGE)
    assert lines(kernel, "copy_async") == [], "a copy that is masked off writes zeros"
    assert "[lane], [30]" in lines(kernel, "store")[0]


def test_fragments_come_from_matrix_loads_where_there_are_any() -> None:
    kernel = Gemm(tile=(32, 16, 16), wave=(32, None), dims=KNOWN).lowered(NVIDIA, STAGE)
    assert ["count = 4" in line for line in lines(kernel, "load_matrix")] == [True, True, True]


def test_edges_are_masked_and_rows_end_inside_an_access() -> None:
    kernel = Gemm(tile=(16, 16, 32), wave=(None, None)).lowered(AMD, STAGE)
    (store,) = lines(kernel, "store")[-1:]
    assert "mask = (([wg0*16 + lane%16], [M],)" in store


def test_stores_of_a_copy_are_at_the_line_of_their_read() -> None:
    kernel = Gemm(tile=(16, 16, 32), wave=(None, None), dims=KNOWN).lowered(AMD, STAGE)
    loop = next(op for op in kernel.walk() if op.name == "for")
    assert [(op["memory"], op.span.line) for op in loop.walk() if op.name == "store" and op.span] == [
        ("b.shared", 28),
        ("a.shared", 27),
    ]
