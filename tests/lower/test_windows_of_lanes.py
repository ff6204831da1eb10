"""Windows of images where lanes of a wave share a tile: what a lane reads, how wide, and how it is summed up."""

from __future__ import annotations

from functools import cache

import pytest

from tests.kernels import subjects
from wavespec.ir.kernel import Kernel, Op
from wavespec.ir.thread_ops import ELEMENTWISE, LOAD
from wavespec.pipeline import lower
from wavespec.targets.machine import machines

ROWS, COLUMNS, CHANNELS = 2, 4, 4
"""Results of one lane."""
TARGETS = ("sm_90", "gfx942")


@cache
def depthwise(target: str, channels: int) -> Kernel:
    (subject,) = (one for one in subjects(target) if one.name == "conv2d_depthwise")
    sizes = subject.complete({"N": 1, "H": 9, "W": 9, "C": channels, "R": 3, "S": 3})
    return lower(subject.cases(target)[subject.case(target, sizes)].spec, machines(target)[0])


def loads_of(kernel: Kernel, memory: str) -> list[Op]:
    return [op for op in kernel.walk() if op.is_(LOAD) and op["memory"] == memory]


@pytest.mark.parametrize("target", TARGETS)
def test_pixels_that_windows_share_are_read_once(target: str) -> None:
    pixels = loads_of(depthwise(target, 64), "x")
    assert len(pixels) == (ROWS + 2) * (COLUMNS + 2) < ROWS * COLUMNS * 9
    assert {op.result.vector.elements for op in pixels} == {CHANNELS}


@pytest.mark.parametrize("target", TARGETS)
def test_windows_beyond_the_last_result_are_checked_by_their_places(target: str) -> None:
    """A pixel has at most two checks of its row and two of its column, whatever window it is in."""
    assert max(len(op["mask"]) for op in loads_of(depthwise(target, 64), "x")) == 4


@pytest.mark.parametrize("channels", [64, 12])
def test_taps_of_a_few_channels_are_one_block(channels: int) -> None:
    taps = loads_of(depthwise("sm_90", channels), "w")
    assert [op.result.vector.elements for op in taps] == [CHANNELS] * 9
    places = sorted(op["offset"].beyond(taps[0]["offset"]) or 0 for op in taps)
    assert [place - places[0] for place in places] == [CHANNELS * number for number in range(9)]
    assert all(len(op["mask"]) == (channels % 64 != 0) for op in taps), "all channels of a lane are there, or none"


@pytest.mark.parametrize("target", TARGETS)
def test_products_are_added_without_being_rounded(target: str) -> None:
    steps = [op for op in depthwise(target, 64).walk() if op.is_(ELEMENTWISE)]
    elements = {
        word: sum(op.result.vector.elements for op in steps if op["function"] == word) for word in ("fma", "add", "mul")
    }
    assert elements == {"fma": 9 * ROWS * COLUMNS * CHANNELS, "add": 0, "mul": 0}
