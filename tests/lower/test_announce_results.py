"""Stores to a little of each of many rows announce the lines that the next step stores to."""

from __future__ import annotations

import pytest

from tests.lower.gemms import CPU, NVIDIA
from tests.lower.ir_text import Text
from wavespec.lower.announce_results import AnnounceResults

BLOCKS = Text("""
    thread kernel @k target cpu lanes 1
    symbol M in 0..4096 by 1
    symbol N in 0..4096 by 1
    symbol block in 0..63 by 1
    plan "auto" stages 1 group 0
    memory @x : f32 (M: [M], N: [N]) global input
    memory @y : f32 (N: [N], M: [M]) global output
""")


def hints(*places: str, how: str = "", load: str = "load") -> list[str]:
    """Of a loop that stores a vector at each of these places."""
    stores = "\n".join(
        f'store %a {{{how}mask = (), memory = "y", offset = [{place}], valid = none}}' for place in places
    )
    after = BLOCKS.after(
        AnnounceResults(),
        CPU,
        f"""
      for {{induction = "block", lower = [0], step = [1], unroll = 1, upper = [64]}} () do
        %a = load {{mask = (), memory = "x", offset = [block*16], valid = none}} : f32x16
        {stores}
        yield
      end
    """,
    )
    return [line.strip() for line in after.splitlines() if "prefetch" in line]


ROWS = [f"M*{row} + block*16" for row in range(8)]


def test_each_row_is_announced_where_the_next_step_goes_on_in_it() -> None:
    found = hints(*ROWS)
    assert len(found) == 8
    assert all('memory = "y"' in line and "block*16 + 16]" in line for line in found)


def test_two_parts_of_a_line_are_announced_once() -> None:
    halves = [place.replace("*16", "*8") for place in ROWS]
    assert len(hints(*halves, *(f"{place} + 4" for place in halves))) == 8


@pytest.mark.parametrize(
    "places", [ROWS[:7], [f"M*{row} + block*N" for row in range(8)], [f"block*16 + {16 * row}" for row in range(8)]]
)
def test_few_rows_and_what_is_no_row_at_all_are_left_to_the_machine(places: list[str]) -> None:
    assert not hints(*places)


def test_what_goes_past_the_caches_is_not_announced() -> None:
    assert not hints(*ROWS, how='cache = "streaming", ')


def test_only_machines_with_hints_have_them() -> None:
    assert AnnounceResults().applies_to(CPU) and not AnnounceResults().applies_to(NVIDIA)
