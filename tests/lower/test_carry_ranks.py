"""A loop that looks for an extreme carries its rank, so that lanes, waves and workgroups join what they have behind it."""

from __future__ import annotations

import pytest

from tests.lower.gemms import NVIDIA
from tests.lower.ir_text import ROWS, lines
from wavespec.lower.carry_ranks import CarryRanks
from wavespec.lower.defer_reductions import DeferReductions

SEARCH = """
    %nowhere = register {value = 0} : tile<M: 4, i64>
    %lowest = register {value = -inf} : tile<M: 4, f32>
    %at, %top = iterate %nowhere, %lowest {dim = "N", extent = [N], induction = "at_N", step = [64], unroll = 1} : tile<M: 4, i64>, tile<M: 4, f32> (%place : tile<M: 4, i64>, %largest : tile<M: 4, f32>) do
      %part = read {memory = "x", origin = (("M", [wg0*4],), ("N", [at_N],),)} : tile<M: 4, N: 64, f32>
      %places = index {dim = "N", origin = (("N", [at_N],),)} : tile<N: 64, i32>
      %ranks = elementwise %part, %places {function = "rank"} : tile<M: 4, N: 64, i64>
      %before = elementwise %largest, %place {function = "rank"} : tile<M: 4, i64>
      %found = reduce %ranks, %before {dim = "N", divided = false, function = "maximum", origin = (("N", [at_N],),), size = [N]} : tile<M: 4, i64>
      %place.1 = elementwise %found {function = "ranked_place"} : tile<M: 4, i64>
      %largest.1 = elementwise %found {function = "ranked_float"} : tile<M: 4, f32>
      yield %place.1, %largest.1
    end
    write %top {memory = "y", origin = (("M", [wg0*4],),)}
"""


def test_a_loop_carries_the_rank_in_place_of_element_and_place() -> None:
    found = ROWS.after(CarryRanks(), NVIDIA, SEARCH)
    assert found == lines("""
        %nowhere = register {value = 0} : tile<M: 4, i64>
        %lowest = register {value = -inf} : tile<M: 4, f32>
        %before.1 = elementwise %lowest, %nowhere {function = "rank"} : tile<M: 4, i64>
        %before.3 = iterate %before.1 {dim = "N", extent = [N], induction = "at_N", step = [64], unroll = 1} : tile<M: 4, i64> (%before.2 : tile<M: 4, i64>) do
          %part = read {memory = "x", origin = (("M", [wg0*4],), ("N", [at_N],),)} : tile<M: 4, N: 64, f32>
          %places = index {dim = "N", origin = (("N", [at_N],),)} : tile<N: 64, i32>
          %ranks = elementwise %part, %places {function = "rank"} : tile<M: 4, N: 64, i64>
          %found = reduce %ranks, %before.2 {dim = "N", divided = false, function = "maximum", origin = (("N", [at_N],),), size = [N]} : tile<M: 4, i64>
          yield %found
        end
        %top = elementwise %before.3 {function = "ranked_float"} : tile<M: 4, f32>
        %at = elementwise %before.3 {function = "ranked_place"} : tile<M: 4, i64>
        write %top {memory = "y", origin = (("M", [wg0*4],),)}
    """)


def test_a_loop_carries_the_ranks_of_all_that_topk_finds() -> None:
    several = SEARCH.replace("M: 4, i64", "M: 4, K: 2, i64").replace("M: 4, f32", "M: 4, K: 2, f32")
    old = 'reduce %ranks, %before {dim = "N", divided = false, function = "maximum", '
    assert old in several
    text = several.replace(old, 'topk %ranks, %before {dim = "N", k = "K", ')
    text = text[: text.index("    write %top")]
    kernel = CarryRanks()(ROWS.kernel(text), NVIDIA)
    (loop,) = (op for op in kernel.body if op.name == "iterate")
    assert [op.name for op in loop.body.ops] == ["read", "index", "elementwise", "topk"]
    assert [op.name for op in kernel.body][-2:] == ["elementwise", "elementwise"]


def test_its_reduction_is_joined_behind_the_loop() -> None:
    kernel = DeferReductions()(CarryRanks()(ROWS.kernel(SEARCH), NVIDIA), NVIDIA)
    (loop,) = (op for op in kernel.body if op.name == "iterate")
    assert "reduce" not in {op.name for op in loop.walk()} and "reduce" in {op.name for op in kernel.body}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("      yield", '      %more = elementwise %place.1, %place {function = "add"} : tile<M: 4, i64>\n      yield'),
        ("yield %place.1, %largest.1", "yield %place, %largest.1"),
        ('%before = elementwise %largest, %place {function = "rank"}', '%before = elementwise %top.1, %place {function = "rank"}'),
        ('"ranked_float"}', '"ranked_float_down"}'),
    ],
    ids=["a use of the place", "a place that stays", "another element", "another order"],
)  # fmt: skip
def test_loops_that_do_more_stay(old: str, new: str) -> None:
    text = SEARCH.replace(old, new)
    if "%top.1" in new:
        text = text.replace("    %at, %top", "    %top.1 = register {value = 1.0} : tile<M: 4, f32>\n    %at, %top")
    kernel = ROWS.kernel(text)
    assert CarryRanks()(kernel, NVIDIA) is kernel
