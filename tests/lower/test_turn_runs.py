"""Elements whose places go down one by one are a load and a turn where all of them are there, else what they were."""

from __future__ import annotations

import pytest

from tests.lower.gemms import CPU, NVIDIA
from tests.lower.ir_text import Text
from wavespec.lower.turn_runs import TurnRuns

ROWS = Text("""
    thread kernel @k target cpu lanes 1
    symbol N in 0..4096 by 1
    symbol at in 0..4080 by 16
    plan "auto" stages 1 group 0
    memory @x : f32 (N: [N]) global input
    memory @y : f32 (N: [N]) global output
""")


def step(place: str = "N - at - {}", mask: str = "", count: int = 8, memory: str = "x") -> str:
    """A load for each of some elements, and a store of all."""
    loads = "".join(
        f'%w{at} = load {{{mask.format(at + 1)}memory = "{memory}", offset = [{place.format(at + 1)}]}} : f32x1\n'
        for at in range(count)
    )
    values = ", ".join(f"%w{at}" for at in range(count))
    return f'{loads}%all = pack {values} : f32x{count}\nstore %all {{memory = "y", offset = [at]}}\n'


CHECKED = "mask = (([-1], [N - at - {}],),), "


def turned(body: str) -> str:
    return ROWS.after(TurnRuns(), CPU, body)


def test_what_needs_no_check_is_one_load() -> None:
    after = turned(step())
    assert after.count("= load") == 1
    assert 'load {memory = "x", offset = [N - at - 8]} : f32x8' in after


def test_the_last_element_is_first() -> None:
    lines = turned(step()).splitlines()
    starts = {line.split()[0]: line.rpartition("start = ")[2].partition("}")[0] for line in lines if "slice" in line}
    (pack,) = (line for line in lines if "pack" in line)
    named = pack.partition("pack ")[2].partition(" :")[0].split(", ")
    assert [starts[one] for one in named] == [str(at) for at in reversed(range(8))]


def test_a_check_of_the_last_one_decides() -> None:
    after = turned(step(mask=CHECKED))
    assert 'load {memory = "x", offset = [N - at - 8]} : f32x8' in after
    assert "upper = [min(max(N - at - 7, 0), 1)]" in after  # the place of the last is at least 0
    assert after.count(": f32x1\n") == 16  # slices, and elements as they were elsewhere


def test_elements_in_the_branch_are_loaded_there() -> None:
    """What depends on nothing in the branch would be loaded in front of it, each time."""
    places = [line for line in turned(step(mask=CHECKED)).splitlines() if "= load" in line and "mask" in line]
    assert len(places) == 8
    assert all("apart" in line.partition("offset")[2] for line in places)


@pytest.mark.parametrize(
    "body",
    [
        step("at + {}"),
        step("N - at - {}*2"),
        step(memory="y"),
        step(count=2),
        step(mask="mask = (([-1], [(N - at - {})%7],),), "),
    ],
)
def test_others_stay(body: str) -> None:
    kernel = ROWS.kernel(body)
    assert TurnRuns()(kernel, CPU) is kernel


def test_it_is_for_waves_that_take_turns() -> None:
    assert TurnRuns().applies_to(CPU)
    assert not TurnRuns().applies_to(NVIDIA)
