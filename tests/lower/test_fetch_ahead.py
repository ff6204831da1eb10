"""The second walk over a row fetches the next one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.lower.gemms import CPU, NVIDIA
from tests.lower.ir_text import Text, lines
from wavespec.ir.kernel import Op
from wavespec.lower.fetch_ahead import FetchAhead
from wavespec.pipeline import lower
from wavespec.schema import load, spec_for_target
from wavespec.targets.machine import Machine

SPECS = Path(__file__).parents[2] / "specs"


def hints(name: str, machine: Machine) -> list[list[Op]]:
    kernel = lower(spec_for_target(load(SPECS / f"{name}.wave.yaml"), machine.target), machine, after="fetch-ahead")
    loops = [op for op in kernel.walk() if op.name == "for" and op["induction"] == "at_N"]
    return [[op for op in loop.body.ops if op.name == "prefetch"] for loop in loops]


def test_second_walk_over_a_row_announces_the_next_one() -> None:
    places = hints("softmax", CPU)
    assert [len(found) for found in places] == [0, 0, 4, 0, 0, 0], (
        "of the maximum, the sum, the results and their edges"
    )
    last = "min(min(M - wg0*16, 16) - 1, wave_M + 1)"
    assert all(op["memory"] == "x" and last in str(op["offset"]) for op in places[2])


ROWS = Text("""
    thread kernel @k target cpu lanes 1
    symbol M in 0..4096 by 1
    symbol N in 0..4096 by 1
    symbol row in 0..15 by 1
    symbol at_N in 0..4032 by 64
    plan "auto" stages 1 group 0
    memory @x : f32 (M: [M], N: [N]) global input
    memory @y : f32 (M: [M], N: [N]) global output
""")


def walks(first: str, second: str, *added: str) -> str:
    """Two walks over a row, for each row, with what each does in a step."""
    loop = 'for {induction = "at_N", lower = [0], step = [64], unroll = 1, upper = [N]} () do'
    ends = "          yield\n        end"
    return f"""
      for {{induction = "row", lower = [0], step = [1], unroll = 1, upper = [16]}} () do
        {loop}
          %a = load {first} : f32x1
          store %a {{memory = "y", offset = [at_N]}}
{ends}
        {loop}
          %b = load {second} : f32x1
{"".join(f"          {op}{chr(10)}" for op in added)}          store %b {{memory = "y", offset = [at_N]}}
{ends}
        yield
      end
    """


HERE = '{memory = "x", offset = [at_N + row*64]}'
BESIDE = HERE.replace("row*64", "row*64 + 32")


def test_second_walk_announces_what_the_next_row_has_there() -> None:
    hint = 'prefetch {memory = "x", offset = [at_N + min(row + 1, 15)*64]}'
    assert ROWS.after(FetchAhead(), CPU, walks(HERE, HERE)) == lines(walks(HERE, HERE, hint))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (HERE, BESIDE),
        (HERE.replace("{", "{mask = (([at_N], [N],),), "), HERE.replace("{", "{mask = (([at_N], [N],),), ")),
        (HERE.replace(" + row*64", ""), HERE.replace(" + row*64", "")),
        (HERE.replace('"x"', '"y"'), HERE.replace('"x"', '"y"')),
    ],
    ids=["read once", "checked for bounds", "the same in every row", "no input"],
)
def test_nothing_is_announced_that_is(first: str, second: str) -> None:
    kernel = ROWS.kernel(walks(first, second))
    assert FetchAhead()(kernel, CPU) is kernel


def test_waves_that_run_together_announce_nothing() -> None:
    kernel = ROWS.kernel(walks(HERE, HERE))
    assert FetchAhead()(kernel, NVIDIA) is kernel
