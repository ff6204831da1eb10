"""What goes past the caches is stored line by line."""

from __future__ import annotations

from tests.lower.gemms import CPU, NVIDIA
from tests.lower.ir_text import Text
from wavespec.lower.store_whole_lines import StoreWholeLines

HALVES = Text("""
    thread kernel @k target cpu lanes 1
    symbol M in 0..4096 by 1
    plan "auto" stages 1 group 0
    memory @x : bf16 (M: [M]) global input
    memory @y : bf16 (M: [M]) global output
""")
PLACES = ["0", "M", "16", "M + 16"]


def stored(how: str) -> list[str]:
    lines = "\n".join(
        f'store %a {{{how}mask = (), memory = "y", offset = [{place}], valid = none}}' for place in PLACES
    )
    after = HALVES.after(
        StoreWholeLines(),
        CPU,
        f"""
      %a = load {{mask = (), memory = "x", offset = [0], valid = none}} : bf16x16
      {lines}
    """,
    )
    return [line.partition("offset = [")[2].partition("]")[0] for line in after.splitlines() if "store %" in line]


def test_the_parts_of_a_row_follow_each_other() -> None:
    assert stored('cache = "streaming", ') == ["0", "16", "M", "M + 16"]


def test_what_caches_keep_stays_in_its_order() -> None:
    assert stored("") == PLACES


def test_lanes_of_gpus_store_together_anyway() -> None:
    assert StoreWholeLines().applies_to(CPU) and not StoreWholeLines().applies_to(NVIDIA)
