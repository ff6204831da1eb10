"""Copies are spread over all lanes, in accesses as wide as both sides allow."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.lower.gemms import AMD, AMD_COPYING, CPU, NVIDIA, Gemm, lines
from wavespec.targets.machine import Machine

KNOWN = ("", "", "multiple_of: 8")


def copies(gemm: Gemm, machine: Machine) -> list[str]:
    return lines(gemm.lowered(machine, "distribute-copies"), "copy")


def layout(copy: str) -> str:
    return copy[copy.index("layout = ") + 9 : copy.index("}, loops") + 1]


def test_neighbouring_lanes_copy_neighbouring_vectors() -> None:
    a, b = copies(Gemm(dims=KNOWN), NVIDIA)
    assert layout(a) == "{M = wave_M*16 + wave_N*8 + lane//4, K = (lane%4)*8; 1 by K 32, 1 by M 32 | 8 by K 1}"
    assert layout(b) == "{N = wave_M*16 + wave_N*8 + lane//4, K = (lane%4)*8; 1 by K 32, 2 by N 32 | 8 by K 1}"


def test_width_is_what_is_known_of_the_rows() -> None:
    widths = [
        layout(copies(Gemm(dims=("", "", promise)), NVIDIA)[0]).split("| ")[1]
        for promise in ("", "multiple_of: 2", "value: 12", "multiple_of: 64")
    ]
    assert widths == ["1 by K 1}", "2 by K 1}", "4 by K 1}", "8 by K 1}"]


def test_width_divides_the_rows_of_the_tile() -> None:
    gemm = Gemm("f32", tile=(32, 32, 6), wave=(32, 32), mma="f32_32x32x2_f32", dims=("", "", "multiple_of: 12"))
    assert layout(copies(gemm, AMD)[0]).endswith("| 2 by K 1}"), "6 is no multiple of 4"


def test_width_is_a_power_of_two() -> None:
    gemm = Gemm("f32", tile=(64, 64, 3), wave=(64, 64), mma="fma_f32_32x64x1", dims=("", "", "value: 12"))
    assert layout(copies(gemm, NVIDIA)[0]).endswith("| 1 by K 1}"), "no machine copies 12 bytes asynchronously"


def test_lanes_without_a_place_in_the_tile_do_nothing() -> None:
    a, _ = copies(Gemm(tile=(48, 48, 48), wave=(48, 48), dims=KNOWN), NVIDIA)
    assert 'bounded = ("M",), guard = (([lane], [30],),)' in a


def test_one_lane_copies_whole_rows_of_its_wave() -> None:
    a, _ = copies(Gemm("f32", tile=(24, 64, 8), wave=(None, None)), CPU)
    assert layout(a) == "{M = 0, K = 0; 12 by M 1 | 8 by K 1}"


@pytest.mark.parametrize(
    ("dtype", "order", "expected"),
    [
        ("f32", "N, K", "(16, 8, 1,)"),
        ("f32", "K, N", "()"),
        ("bf16", "N, K", "(16, 4, 2,)"),
        ("bf16", "K, N", "(2, 32, 1,)"),
    ],
)
def test_panels_turn_what_lies_the_other_way(dtype: str, order: str, expected: str) -> None:
    _, b = copies(Gemm(dtype, tile=(24, 64, 8), wave=(None, None), orders=("M, K", order, "M, N")), CPU)
    assert b.endswith(f"transpose = {expected}}}")


def test_panels_are_filled_as_far_as_they_are_read() -> None:
    _, b = copies(Gemm("f32", tile=(24, 64, 8), wave=(None, None)), CPU)
    assert "min(0 - wg1*64 + ((N + 31)//32)*32, 64)" in b, "a panel has 32 columns"


COPIED = Gemm(tile=(64, 64, 64), wave=(32, 32), stages=2, dims=KNOWN)


def is_asynchronous(gemm: Gemm, machine: Machine = AMD_COPYING) -> list[bool]:
    return ["asynchronous = true" in copy for copy in copies(gemm, machine)]


def test_lanes_that_write_in_order_read_what_the_swizzle_puts_there() -> None:
    a, _ = copies(COPIED, AMD_COPYING)
    assert layout(a) == (
        "{M = wave_M*16 + wave_N*8 + lane//8, K = xor(xor(wave_N, lane//8), lane%8)*8; 1 by K 64, 2 by M 32 | 8 by K 1}"
    )
    kernel = COPIED.lowered(AMD_COPYING, "distribute-copies")
    copy = next(op for op in kernel.walk() if op.name == "copy")
    shared, waves = kernel.memory(copy["memory"]), {"wave_M": 1, "wave_N": 1}
    for first in list(copy["layout"].coordinates())[::8]:
        places = [shared.offset(first).evaluate({"lane": lane, **waves}) for lane in range(64)]
        assert places == list(range(places[0], places[0] + 64 * 8, 8))


@pytest.mark.parametrize(
    "changes",
    [
        {"stages": 1},
        {"stages": 1, "schedule": "waves: {order: ping_pong}"},
        {"dims": ("", "", "multiple_of: 2")},
        {"tile": (64, 48, 64), "wave": (16, 48)},
        {"tile": (256, 256, 128), "wave": (128, 128)},
        {"tile": (32, 32, 128)},
    ],
    ids=["no-overlap", "turns", "part-of-a-vector", "lanes-left-over", "no-room", "swizzle-across-rounds"],
)
def test_tiles_go_through_registers_where_copies_do_not_fit(changes: dict[str, Any]) -> None:
    assert is_asynchronous(COPIED) == [True, True]
    assert is_asynchronous(replace(COPIED, **changes)) == [False, False]


def test_one_tile_through_registers_decides_for_all() -> None:
    gemm = replace(COPIED, orders=("M, K", "K, N", "M, N"))
    assert is_asynchronous(gemm) == [False, False]
    assert is_asynchronous(gemm, NVIDIA) == [True, False]
