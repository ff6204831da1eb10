"""Waves that lie inside of a tensor check nothing; the one that sticks out does."""

from __future__ import annotations

import pytest

from tests.lower.gemms import CPU, NVIDIA
from tests.lower.ir_text import Text, lines
from wavespec.lower.peel_waves import PeelWaves

ROW = Text("""
    thread kernel @k target cpu lanes 1
    symbol N in 0..4096 by 1
    symbol wave in 0..63 by 1
    symbol row in 0..63 by 1
    plan "auto" stages 1 group 0
    memory @x : f32 (N: [N]) global input
    memory @y : f32 (N: [N]) global output
""")
ALL = "min((N + 31)//32, 8)"


def waves(lower: str, upper: str, checked: bool, load: str, other: str, *, step: int = 1) -> str:
    """A wave's 32 elements are loaded by 16 and stored by 32."""
    left, later = (", valid = [N - wave*32]", ", valid = [N - wave*32 - 16]") if checked else ("", "")
    return f"""
    for {{induction = "wave", lower = [{lower}], step = [{step}], unroll = 1, upper = [{upper}]}} () do
      %{load} = load {{memory = "x", offset = [wave*32]{left}}} : f32x16
      %{other} = load {{memory = "x", offset = [wave*32 + 16]{later}}} : f32x16
      store %{load} {{memory = "y", offset = [wave*32]{left}}}
      store %{other} {{memory = "y", offset = [wave*32 + 16]{later}}}
      yield
    end"""


def test_whole_waves_stand_apart() -> None:
    end = "min(N//32, min((N + 31)//32, 8))"
    expected = waves("0", end, False, "a.1", "b.1") + waves(end, ALL, True, "a", "b")
    assert ROW.after(PeelWaves(), CPU, waves("0", ALL, True, "a", "b")) == lines(expected)


@pytest.mark.parametrize(
    "body",
    [
        waves("0", ALL, False, "a", "b"),
        waves("0", ALL, True, "a", "b", step=2),
        waves("0", ALL, True, "a", "b").replace("N - wave*32", "N + wave*32"),
        waves("0", ALL, True, "a", "b").replace("N - wave*32", "N"),
    ],
    ids=["nothing checked", "other steps", "more in each step", "the same in each step"],
)
def test_other_loops_stay(body: str) -> None:
    kernel = ROW.kernel(body)
    assert PeelWaves()(kernel, CPU) is kernel


def test_what_a_loop_inside_decides_stays_checked() -> None:
    inner = """
    for {{induction = "wave", lower = [{0}], step = [1], unroll = 1, upper = [{1}]}} () do
      for {{induction = "row", lower = [0], step = [1], unroll = 1, upper = [2]}} () do
        %{2} = load {{memory = "x", offset = [row + wave*32], valid = [N + row - wave*32]}} : f32x16
        store %{2} {{memory = "y", offset = [wave*32]{3}}}
        yield
      end
      yield
    end"""
    end = "min((N + 16)//32, min((N + 31)//32, 8))"
    checked = ", valid = [N - wave*32]"
    expected = inner.format("0", end, "a.1", "") + inner.format(end, ALL, "a", checked)
    assert ROW.after(PeelWaves(), CPU, inner.format("0", ALL, "a", checked)) == lines(expected)


def test_waves_that_run_together_have_no_loop() -> None:
    kernel = ROW.kernel(waves("0", ALL, True, "a", "b"))
    assert PeelWaves()(kernel, NVIDIA) is kernel


def test_waves_whose_lanes_multiply_stand_apart_as_well() -> None:
    product = '%c = dot %a, %a, %b {instruction = "lanes_f32", runs = 1, start = 0} : f32x16'
    after = ROW.after(
        PeelWaves(), CPU, waves("0", ALL, True, "a", "b").replace("store %b", f"{product}\n      store %c")
    )
    assert after.count("= dot") == 2
    assert after.count("valid") == 4  # of the waves that stick out alone


def test_many_written_out_products_stand_there_once() -> None:
    """Beside so many a check is nothing, and the code would be twice as much."""
    product = '%c = dot %a, %a, %b {instruction = "lanes_f32", runs = 1, start = 0} : f32x16'
    others = "\n".join(product.replace("%c", f"%c{number}") for number in range(300))
    body = waves("0", ALL, True, "a", "b").replace("store %b", f"{others}\n      store %c0")
    nested = body.replace(
        "yield", 'for {induction = "row", lower = [0], step = [1], unroll = 1, upper = [2]} () do\nyield\nend\nyield'
    )
    for kernel in map(ROW.kernel, (body, nested)):
        assert PeelWaves()(kernel, CPU) is kernel
