"""Places of tiles that are some number apart have the same remainder in all rounds, which stands in front of the loop."""

from __future__ import annotations

from tests.lower.gemms import NVIDIA
from tests.lower.ir_text import Text
from wavespec.lower.persist_workgroups import PersistWorkgroups

ROWS = Text("""
    thread kernel @k target sm_90 lanes 32
    symbol M in 0..4096 by 1
    symbol N in 1..4096 by 1
    symbol lane in 0..31 by 1
    symbol wg0 in 0..4095 by 1
    plan "auto" stages 1 group 1 persistent
    grid [M]
    memory @weight : f32 (N: [N]) global input
    memory @y : f32 (M: [M], N: [N]) global output
""")
BODY = """
    %one = load {memory = "weight", offset = [lane + REST]} : f32x1
    store %one {memory = "y", offset = [wg0*N + lane]}
"""


def loaded(rest: str) -> tuple[str, str]:
    """What stands in front of the loop, and the load in it."""
    text = ROWS.after(PersistWorkgroups(), NVIDIA, BODY.replace("REST", rest))
    before, _, inside = text.partition("for {")
    return before, next(line for line in inside.splitlines() if "load" in line)


def test_what_a_multiple_of_the_distance_hides_stands_in_front() -> None:
    """Workgroups are 132 apart, a multiple of 4: rows of all rounds start as far behind a place where accesses may."""
    before, load = loaded("wg0*N%4")
    assert 'symbol = "start"' in before and "[lane + start]" in load


def test_a_place_that_depends_on_the_tile_anyway_stays_as_it_is() -> None:
    before, load = loaded("wg0*N%4 + wg0")
    assert 'symbol = "start"' not in before and "%4" in load


def test_a_few_workgroups_stay_away_for_it() -> None:
    """128 of 132: then rows of all rounds start as far behind every eighth element."""
    before, load = loaded("wg0*N%8")
    assert 'symbol = "start"' in before and "[lane + start]" in load and "min(tiles, 128)" in before


def test_what_differs_from_round_to_round_stays() -> None:
    """No number of workgroups but 0 is a multiple of 256."""
    before, load = loaded("wg0*N%256")
    assert 'symbol = "start"' not in before and "%256" in load and "min(tiles, 132)" in before
