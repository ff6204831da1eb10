"""Products that read taps of lines in place walk over lines, and along each."""

from __future__ import annotations

from tests.lower.gemms import CPU, NVIDIA
from tests.lower.ir_text import Text, body_text
from wavespec.lower.nest_lines import NestLines

TAPS = Text("""
    thread kernel @k target cpu lanes 1
    symbol W in 1..4096 by 1
    symbol C in 1..4 by 1
    symbol LINE in 1..32 by 1
    symbol K in 0..256 by 1
    symbol in_K in 0..255 by 1
    plan "auto" stages 1 group 0
    size LINE [LINE]
    size C [C]
    size K [K]
    memory @x : f32 (W: [W]) global input mapped
    memory @w : f32 (K: [K], O: [32]) shared
    memory @y : f32 (M: [384]) global output
""")


def product(place: str, mask: str = "()", upper: str = "K") -> str:
    """The sums of a tile of which all rows are one."""
    rows = ", ".join(["%a"] * 12)
    return f"""
      %zero = constant {{value = 0.0}} : f32x384
      %sums = for %zero {{induction = "in_K", lower = [0], step = [1], unroll = 1, upper = [{upper}]}} : f32x384 (%acc : f32x384) do
        %a = load {{mask = {mask}, memory = "x", offset = [{place}]}} : f32x1
        %rows = pack {rows} : f32x12
        %b = load {{memory = "w", offset = [in_K*32]}} : f32x32
        %next = mma %rows, %b, %acc {{instruction = "fma_f32_12x32x1"}} : f32x384
        yield %next
      end
      store %sums {{memory = "y", offset = [0]}}
    """


def test_lines_are_a_loop_of_their_own_and_places_have_no_quotient() -> None:
    after = TAPS.after(NestLines(), CPU, product("W*(in_K//LINE) + in_K%LINE"))
    outer, inner, *_ = (line for line in after.splitlines() if " = for " in line)
    assert "upper = [(K + LINE - 1)//LINE]" in outer
    assert "upper = [min(LINE, K - LINE*line)]" in inner
    assert "offset = [along + W*line]" in after
    assert "in_K" not in after


def test_what_is_staged_is_counted_by_both() -> None:
    after = TAPS.after(NestLines(), CPU, product("W*(in_K//LINE) + in_K%LINE"))
    assert 'memory = "w", offset = [along*32 + (LINE*line)*32]' in after


def test_sums_go_through_both_loops() -> None:
    after = TAPS.after(NestLines(), CPU, product("W*(in_K//LINE) + in_K%LINE"))
    outer, inner, *_ = (line for line in after.splitlines() if " = for " in line)
    carried = outer.split("(%")[1].split(" ")[0]
    assert f"= for %{carried} " in inner


def test_taps_that_are_checked_one_by_one_are_a_loop_as_well() -> None:
    place, tap = "W*(in_K//LINE) + in_K%LINE", "(in_K%LINE)//C"
    after = TAPS.after(NestLines(), CPU, product(place, f"(([-1], [{tap} - 2],),)"))
    assert after.count(" = for ") == 3
    assert "mask = (([-1], [line.1 - 2],),)" in after


def test_rows_without_quotients_are_one_loop() -> None:
    text = product("in_K")
    assert TAPS.after(NestLines(), CPU, text) == body_text(TAPS.kernel(text))


def test_loops_that_something_else_is_done_in_stay() -> None:
    text = product("W*(in_K//LINE) + in_K%LINE").replace(
        "yield %next", 'store %b {memory = "y", offset = [0]}\n yield %next'
    )
    assert TAPS.after(NestLines(), CPU, text).count(" = for ") == 1


def test_concurrent_waves_have_other_loops() -> None:
    assert not NestLines().applies_to(NVIDIA)
