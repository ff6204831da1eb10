"""Rows that are computed alike are a loop, and each step of it announces what its row has next."""

from __future__ import annotations

import pytest

from tests.lower.gemms import CPU
from tests.lower.ir_text import Text
from wavespec.ir.expr import const, minimum, symbol
from wavespec.lower.equal_steps import UnevenSteps, in_steps
from wavespec.lower.roll_rows import RollRows

PANEL = Text("""
    thread kernel @k target cpu lanes 1
    symbol N in 1..4096 by 1
    symbol K in 0..4096 by 64
    symbol at_K in 0..4032 by 64
    symbol wave_N in 0..63 by 1
    plan "auto" stages 1 group 0
    size N [N]
    size K [K]
    memory @w : f32 (N: [N], K: [K]) global input
    memory @panel : bf16 (N: [64], K: [64]) shared
""")
ROWS = 36


def block(*, rows: int = ROWS, last: str = "", computed: bool = True) -> str:
    """Rows of two pieces: all loads, all steps, all stores; ``last``: in place of the offset of the last store."""
    pieces = [(row, piece) for row in range(rows) for piece in (0, 16)]
    step = "cast %w{n} : bf16x16" if computed else "slice %h{n} {{size = 16, start = 0}} : bf16x16"
    loads = [
        f'%w{row}_{piece} = load {{memory = "w", offset = [at_K + K*min(N - 1, wave_N*36 + {row}) + {piece}]}} : f32x16'
        for row, piece in pieces
    ]
    steps = [f"%b{row}_{piece} = " + step.format(n=f"{row}_{piece}") for row, piece in pieces]
    places = [str(row * 64 + piece) for row, piece in pieces]
    places[-1] = last or places[-1]
    stores = [
        f'store %b{row}_{piece} {{memory = "panel", offset = [{place}]}}'
        for (row, piece), place in zip(pieces, places, strict=True)
    ]
    inside = "\n".join("        " + line for line in (*loads, *steps, *stores))
    return f"""
      for {{induction = "at_K", lower = [0], step = [64], unroll = 1, upper = [K]}} () do
        for {{induction = "wave_N", lower = [0], step = [1], unroll = 1, upper = [2]}} () do
{inside}
          yield
        end
        yield
      end
    """


def test_rows_are_a_loop_with_one_of_them_in_a_step() -> None:
    after = PANEL.after(RollRows(), CPU, block())
    assert f'induction = "row", lower = [0], step = [1], unroll = 1, upper = [{ROWS}]' in after
    assert after.count(" = load ") == 2
    assert 'memory = "w", offset = [at_K + K*min(N - 1, row + wave_N*36)]' in after
    assert 'store %b0_16 {memory = "panel", offset = [row*64 + 16]}' in after


def test_a_step_announces_the_line_that_the_loop_around_reads_next_of_its_row() -> None:
    after = PANEL.after(RollRows(), CPU, block())
    announced = [line.strip() for line in after.splitlines() if "prefetch" in line]
    assert announced == [
        f'prefetch {{memory = "w", offset = [at_K + K*min(N - 1, row + wave_N*36) + {ahead}]}}' for ahead in (64, 80)
    ]


@pytest.mark.parametrize("text", [block(rows=8), block(last="1")], ids=["registers hold them", "not equally far apart"])
def test_blocks_stay_as_they_are(text: str) -> None:
    assert "prefetch" not in PANEL.after(RollRows(), CPU, text)
    assert 'induction = "row"' not in PANEL.after(RollRows(), CPU, text)


def test_rows_that_are_only_copied_stay() -> None:
    copied = PANEL.changed(("@panel : bf16", "@panel : f32"))
    text = "\n".join(line for line in block().replace("store %b", "store %w").splitlines() if " = cast " not in line)
    assert 'induction = "row"' not in copied.after(RollRows(), CPU, text)


def test_what_a_later_operation_uses_stays() -> None:
    text = block().replace(
        "          yield",
        '          %other = cast %b3_0 : f32x16\n        store %other {memory = "panel2", offset = [0]}\n        yield',
    )
    used = Text(PANEL.head + "    memory @panel2 : f32 (N: [64], K: [64]) private\n")
    assert 'induction = "row"' not in used.after(RollRows(), CPU, text)


def test_expressions_go_in_steps_inside_of_others() -> None:
    n, at, row = symbol("N", 1), symbol("at") * 32, symbol("row", 0, 3)
    given = [n * index + minimum(n - 1, at + 2 * index) + 5 for index in range(4)]
    assert in_steps(given, row) is n * row + minimum(n - 1, at + row * 2) + 5


@pytest.mark.parametrize(
    "given",
    [(0, 1, 3), (symbol("a"), symbol("b"), symbol("a")), ((const(0),), (const(0), const(1))), (0.0, -0.0)],
    ids=["steps", "symbols", "lengths", "zeros"],
)
def test_what_differs_otherwise_has_none(given: tuple[object, ...]) -> None:
    values = [const(one) if isinstance(one, int) else one for one in given]
    with pytest.raises(UnevenSteps):
        in_steps(values, symbol("row", 0, 3))
