"""Windows of images where one lane has a whole tile: what is checked, how much at once, and how often it is read."""

from __future__ import annotations

import re
from functools import cache

from tests.kernels import SPECS
from wavespec.ir.kernel import Kernel, Op
from wavespec.ir.thread_ops import LOAD
from wavespec.pipeline import emit, lower
from wavespec.schema import KernelSpec, loads
from wavespec.schema.resolve import cases_for_target
from wavespec.targets.machine import machines

AMX = machines("cpu")[0]


@cache
def first_case(name: str) -> KernelSpec:
    text = (SPECS / f"{name}.wave.yaml").read_text().replace("[bf16, f16, f32]", "[f32]")
    return cases_for_target(loads(text, f"{name}.wave.yaml", SPECS), "cpu")[0].spec


@cache
def loads_of(name: str, memory: str) -> list[Op]:
    kernel: Kernel = lower(first_case(name), AMX)
    return [op for op in kernel.walk() if op.is_(LOAD) and op["memory"] == memory]


def test_rows_beyond_the_last_pixel_are_checked_by_their_places() -> None:
    m = [right for op in loads_of("conv2d_nhwc", "x") for _, right in op["mask"] if repr(right) == "M"]
    assert not m
    assert any(repr(right) == "K" for op in loads_of("conv2d_nhwc", "x") for _, right in op["mask"]), "K is summed over"


def test_cache_lines_of_one_pixel_lie_side_by_side() -> None:
    first, second = loads_of("conv2d_nhwc", "x")[:2]
    assert second["offset"].beyond(first["offset"]) == first.result.vector.elements == 32


def test_pixels_that_windows_share_are_read_once() -> None:
    pixels, windows = (4 + 2) * 3, 4 * 3 * 3
    assert len(loads_of("conv2d_depthwise", "x")) == pixels * 2 < windows * 2, "32 channels are two registers"


def test_what_is_outside_of_an_image_is_read_from_zeros() -> None:
    text = emit(first_case("conv2d_nhwc"), AMX).text
    pixels, weights, lines = 16, 16, 2
    assert "vector.maskedload" not in text
    assert text.count('"llvm.load"') == pixels * lines + weights
    assert len(re.findall(r"arith.select .* : i64", text)) == pixels + weights, "one address for the lines of a pixel"
    assert text.count("arith.cmpi ult") >= 2 * pixels, "a row and a column, each by one comparison"
