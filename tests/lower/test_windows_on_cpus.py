"""Windows of images where one lane has a whole tile: what is checked, how much at once, and how often it is read."""

from __future__ import annotations

import re
from functools import cache

from tests.kernels import SPECS
from wavespec.cases_on_machines import cases_on
from wavespec.ir.expr import const
from wavespec.ir.kernel import Kernel, Op
from wavespec.ir.thread_ops import FOR, LOAD, STORE
from wavespec.pipeline import emit, lower
from wavespec.schema import KernelSpec, loads
from wavespec.schema.cases import case_for_sizes
from wavespec.schema.resolve import complete_sizes
from wavespec.targets.machine import Machine, machines

AMX = machines("cpu")[0]
(LANES,) = machines("cpu:x86_64_v4_bf16")
SIZES = {"N": 1, "H": 9, "W": 9, "C": 128, "O": 64}
WIDE = {**SIZES, "W": 200, "C": 64}
"""Lines of which there are too many pixels for taps of all of them to be staged at once."""


@cache
def first_case(name: str) -> KernelSpec:
    text = (SPECS / f"{name}.wave.yaml").read_text().replace("[bf16, f16, f32]", "[f32]")
    return cases_on(loads(text, f"{name}.wave.yaml", SPECS), "cpu", (AMX,))[0].spec


def case_for(name: str, machine: Machine = AMX, **sizes: int) -> KernelSpec:
    """The spec of the kernel for calls of these sizes."""
    spec = loads((SPECS / f"{name}.wave.yaml").read_text(), f"{name}.wave.yaml", SPECS)
    return case_for_sizes(cases_on(spec, "cpu", (machine,)), complete_sizes(spec, sizes)).spec


@cache
def loads_of(name: str, memory: str) -> list[Op]:
    spec = case_for(name, **WIDE, R=3, S=3) if name == "conv2d_nhwc" else first_case(name)
    kernel: Kernel = lower(spec, AMX)
    return [op for op in kernel.walk() if op.is_(LOAD) and op["memory"] == memory]


def test_rows_beyond_the_last_pixel_are_checked_by_their_places() -> None:
    checked = {repr(right) for op in loads_of("conv2d_nhwc", "x") for _, right in op["mask"]}
    assert "H" in checked, "of a pixel"
    assert not {"M", "K"} & checked, "the end of the loop over K says the latter"


def test_cache_lines_of_one_pixel_lie_side_by_side() -> None:
    first, second = loads_of("conv2d_nhwc", "x")[:2]
    assert second["offset"].beyond(first["offset"]) == first.result.vector.elements == 32


def test_pixels_that_windows_share_are_read_once() -> None:
    pixels, windows = (7 + 2) * (2 + 2), 7 * 2 * 3 * 3
    assert len(loads_of("conv2d_depthwise", "x")) == pixels < windows, "16 channels are one register"


def test_what_is_outside_of_an_image_is_read_from_zeros() -> None:
    text = emit(case_for("conv2d_nhwc", **SIZES, R=5, S=5), AMX).text
    pixels, weights, lines = 16, 16, 2
    assert "vector.maskedload" not in text
    assert text.count('"llvm.load"') == pixels * lines + weights
    assert len(re.findall(r"arith.select .* : i64", text)) == pixels + weights, "one address for the lines of a pixel"
    assert text.count("arith.cmpi ult") >= 2 * pixels, "a row and a column, each by one comparison"


def test_pixels_that_taps_of_a_row_share_are_staged_once() -> None:
    kernel = lower(case_for("conv2d_nhwc", **WIDE, R=3, S=3), AMX)
    rows, taps, channels = 36, 3, 64
    assert kernel.memory("pixels.shared").elements.value < (rows + taps) * taps * channels
    (stores,) = (op for op in kernel.walk() if op.is_(FOR) and op["induction"] == "copy.pixels.shared.K")
    assert stores["step"] == const(taps * channels)


def test_results_of_images_are_checked_and_placed_without_quotients() -> None:
    kernel = lower(case_for("conv2d_nhwc", **SIZES, R=5, S=5), AMX)
    stores = [op for op in kernel.walk() if op.is_(STORE) and op["memory"] == "y"]
    used = [node.kind for op in stores for expr in op.expressions() for node in expr.walk()]
    assert stores and not {"floordiv", "mod"} & {*used}


def test_sums_of_one_step_are_carried_nowhere() -> None:
    def carried(pixels: int) -> list[str]:
        kernel = lower(case_for("conv2d_nhwc", LANES, **SIZES, R=pixels, S=pixels), LANES)
        return [memory.name for memory in kernel.memories if memory.space == "private"]

    assert carried(5)
    assert not carried(1)
