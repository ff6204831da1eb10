"""A loop goes where one tile covers its dim for every size, and stays where it has steps to overlap."""

from __future__ import annotations

import numpy as np
import pytest

from tests.lower.gemms import AMD, CPU, NVIDIA
from tests.lower.ir_text import ROWS, lines
from tests.ops.rows import Rows
from wavespec.lower.inline_steps import InlineSteps
from wavespec.targets.machine import Machine

SHORT = ROWS.changed(("N in 0..4096", "N in 0..64"))
SUM = """
    %zero = register {value = 0.0} : tile<M: 4, f32>
    %sum = iterate %zero {dim = "N", extent = [N], induction = "at_N", step = [64], unroll = 1} : tile<M: 4, f32> (%acc : tile<M: 4, f32>) do
      %part = read {memory = "x", origin = (("M", [wg0*4],), ("N", [at_N],),)} : tile<M: 4, N: 64, f32>
      %acc.1 = reduce %part, %acc {dim = "N", divided = false, function = "add", origin = (("N", [at_N],),), size = [N]} : tile<M: 4, f32>
      yield %acc.1
    end
    write %sum {memory = "y", origin = (("M", [wg0*4],),)}
"""


def test_loop_of_at_most_one_step_is_its_body() -> None:
    assert SHORT.after(InlineSteps(), NVIDIA, SUM) == lines("""
        %zero = register {value = 0.0} : tile<M: 4, f32>
        %part = read {memory = "x", origin = (("M", [wg0*4],), ("N", [0],),)} : tile<M: 4, N: 64, f32>
        %acc.1 = reduce %part, %zero {dim = "N", divided = false, function = "add", origin = (("N", [0],),), size = [N]} : tile<M: 4, f32>
        write %acc.1 {memory = "y", origin = (("M", [wg0*4],),)}
    """)


def test_loops_one_behind_the_other_hand_on_what_they_became() -> None:
    again = SUM.replace("%zero = register", "%one = register").replace("%part", "%other")
    again = (
        again.replace("%sum = iterate %zero", "%more = iterate %sum")
        .replace("%acc", "%b")
        .replace("write %sum", "write %more")
    )
    found = SHORT.after(InlineSteps(), NVIDIA, SUM + again)
    assert "iterate" not in found and "reduce %other, %acc.1 " in found and "write %b.1 " in found


@pytest.mark.parametrize(
    "body",
    [
        SUM,
        SUM.replace('"at_N", step', '"at_N", goes_on = [1], step').replace("[N]", "[64]", 1),
        SUM.replace('dim = "N", extent = [N]', 'dim = "", extent = [N - N]'),
        SUM.replace('"at_N", step', '"at_N", lower = [wg0*64], step').replace("[N]", "[64]", 1),
        SUM.replace("unroll = 1}", "stride = [2], unroll = 1}").replace("[N]", "[64]", 1),
    ],
    ids=[
        "has two steps for some size",
        "may end before its first",
        "is over no dim, and may have none",
        "is another workgroup's",
        "counts its tiles",
    ],
)
def test_loop_stays_that(body: str) -> None:
    kernel = ROWS.changed(("N in 0..4096", "N in 0..65")).kernel(body)
    assert InlineSteps()(kernel, NVIDIA) is kernel


PRODUCTS = """
    %acc = register {value = 0.0} : tile<M: 4, D: 4, f32>
    %b = register {value = 1.0} : tile<D: 4, N: 64, f32>
    %sum = iterate %acc {dim = "N", extent = [N], induction = "at_N", step = [64], unroll = 1} : tile<M: 4, D: 4, f32> (%c : tile<M: 4, D: 4, f32>) do
      %a = read {memory = "x", origin = (("M", [wg0*4],), ("N", [at_N],),)} : tile<M: 4, N: 64, f32>
      %c.1 = mma %a, %b, %c {instruction = "fma_f32_32x64x4", k = "N", m = "M", n = "D"} : tile<M: 4, D: 4, f32>
      yield %c.1
    end
"""


def test_loops_of_products_stay_where_their_steps_overlap() -> None:
    kernel = SHORT.kernel(PRODUCTS)
    assert InlineSteps()(kernel, NVIDIA) is kernel


def test_one_step_of_products_is_no_loop_where_waves_run_one_after_another() -> None:
    found = SHORT.after(InlineSteps(), CPU, PRODUCTS)
    assert "iterate" not in found and "mma %a, %b, %acc " in found


@pytest.mark.parametrize("machine", [NVIDIA, AMD, CPU], ids=lambda machine: machine.variant)
@pytest.mark.parametrize("sizes", [(5, 64), (4, 13), (3, 1), (2, 0)], ids=str)
def test_result_is_the_same(machine: Machine, sizes: tuple[int, int]) -> None:
    report, expected = Rows("max", promise="max: 64", init=3).run(machine, sizes)
    assert report.ok, report.render()
    assert np.array_equal(report.tensors["y"], expected)
