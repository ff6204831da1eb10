"""Products that read rows where they are announce, line by line, those of the next tile."""

from __future__ import annotations

import pytest

from tests.lower.gemms import CPU, NVIDIA
from tests.lower.ir_text import Text
from wavespec.lower.announce_rows import AnnounceRows

HEAD = """
    thread kernel @k target cpu lanes 1
    symbol M in 0..4096 by 2
    symbol K in 0..4096 by 64
    symbol tile in 0..15 by 1
    symbol in_K in 0..4094 by 2
    plan "auto" stages 1 group 0
    memory @x : bf16 (M: [M], K: [K]) global input
    memory @w : bf16 (K: [K]) global input
    memory @y : f32 (M: [M], K: [K]) global output
"""
TILE = Text(HEAD)
ROW = "in_K + (K*tile)*2"
"""Where a row of the first two of a tile begins; the other one is ``K`` further on."""


def product(row: str, upper: str = "K") -> str:
    """The sums of a tile of two rows, of which a step multiplies two elements each."""
    return f"""
      %zero = constant {{value = 0.0}} : f32x32
      for {{induction = "tile", lower = [0], step = [1], unroll = 1, upper = [16]}} () do
        %sums = for %zero {{induction = "in_K", lower = [0], step = [2], unroll = 1, upper = [{upper}]}} : f32x32 (%acc : f32x32) do
          %a = load {{memory = "x", offset = [{row}]}} : bf16x2
          %b = load {{memory = "x", offset = [K + {row}]}} : bf16x2
          %rows = pack %a, %b : bf16x4
          %w = load {{memory = "w", offset = [in_K]}} : bf16x32
          %next = mma %rows, %w, %acc {{instruction = "dot2_bf16_12x32x2"}} : f32x32
          yield %next
        end
        store %sums {{memory = "y", offset = [tile*32]}}
        yield
      end
    """


def announced(row: str, upper: str = "K") -> list[str]:
    """The places that are announced, as they are printed."""
    body = product(row, upper).replace('load {memory = "w"', 'load {memory = "y"')
    text = TILE.after(AnnounceRows(), CPU, body)
    return [line.strip() for line in text.splitlines() if "prefetch" in line]


def test_a_line_of_each_row_of_the_next_tile_is_announced_in_front_of_a_line_of_products() -> None:
    ahead = ["K*2 + line + (K*tile)*2", "K*3 + line + (K*tile)*2"]
    assert announced(ROW) == [f'prefetch {{memory = "x", offset = [{place}]}}' for place in ahead]
    text = TILE.after(AnnounceRows(), CPU, product(ROW).replace('load {memory = "w"', 'load {memory = "y"'))
    loops = [line for line in text.splitlines() if " for " in line or line.strip().startswith("for ")]
    assert ["step = [32]" in loop and "upper = [K]" in loop for loop in loops] == [False, True, False]
    assert "step = [2]" in loops[2] and "upper = [32]" in loops[2]
    assert "offset = [in_K + line + (K*tile)*2]" in text


@pytest.mark.parametrize(
    ("row", "upper"),
    [("in_K", "K"), (ROW, "K - 2"), ("in_K + (K*(tile%3))*2", "K")],
    ids=["the same in every tile", "no whole lines", "further on by another way each time"],
)
def test_nothing_is_announced_that_is(row: str, upper: str) -> None:
    assert announced(row, upper) == []


def test_neighbours_of_a_place_were_read_by_steps_before() -> None:
    """But not where the row of a tile alone says whether it is there."""
    text = Text(
        HEAD.replace("global input", "global input mapped", 1).replace(
            "symbol in_K", "symbol tap in 0..2 by 1\n    symbol in_K"
        )
    )
    body = product(ROW).replace('load {memory = "w"', 'load {memory = "y"')
    head = 'for {induction = "tap", lower = [0], step = [1], unroll = 1, upper = [3]} () do'
    checked = [
        body.replace('load {memory = "x"', f'load {{mask = (([-1], [{row}],),), memory = "x"')
        for row in ("tile - 1", "tile + tap - 1")
    ]
    rows = [text.after(AnnounceRows(), CPU, f"{head}\n{each}\nyield\nend").count("prefetch") for each in checked]
    assert rows == [2, 0]


def test_a_loop_of_one_line_at_most_is_left_as_it_is() -> None:
    one_line = Text(HEAD.replace("0..4094", "0..30"))
    kernel = one_line.kernel(product(ROW, "min(K, 32)").replace('load {memory = "w"', 'load {memory = "y"'))
    assert AnnounceRows()(kernel, CPU) is kernel


def test_what_is_read_of_two_inputs_is_left_as_it_is() -> None:
    kernel = TILE.kernel(product(ROW))
    assert AnnounceRows()(kernel, CPU) is kernel


def test_waves_that_run_together_announce_nothing() -> None:
    kernel = TILE.kernel(product(ROW))
    assert not AnnounceRows().applies_to(NVIDIA)
    assert AnnounceRows()(kernel, NVIDIA) is kernel
