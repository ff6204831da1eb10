"""Rows that are copied by vectors are checked in front of the loop along them."""

from __future__ import annotations

from tests.lower.gemms import CPU, NVIDIA
from tests.lower.ir_text import Text
from wavespec.lower.check_once import CheckOnce

LINES = Text("""
    thread kernel @k target cpu lanes 1
    symbol H in 1..4096 by 1
    symbol W in 1..4096 by 1
    symbol E in 1..64 by 1
    symbol LINE in 32..64 by 32
    symbol row in 0..4095 by 1
    symbol copy_K in 0..992 by 32
    plan "auto" stages 1 group 0
    size E [E]
    size LINE [LINE]
    memory @x : bf16 (H: [H], W: [W]) global input mapped
    memory @x.shared : bf16 (K: [1024]) shared
""")


def line(mask: str = "(([-1], [row + copy_K//LINE - 1],), ([row + copy_K//LINE - 1], [H],),)") -> str:
    """A row that begins two elements in front of a line of the image, as far as it is in a window of E."""
    return f"""
      for {{induction = "copy_K", lower = [0], step = [32], unroll = 1, upper = [1024]}} () do
        %x = load {{front = [2 - copy_K%LINE - row], mask = {mask}, memory = "x", offset = [W*row + copy_K - 2], valid = [min(E - copy_K%LINE, W - row - copy_K%LINE)]}} : bf16x32
        store %x {{memory = "x.shared", offset = [copy_K]}}
        yield
      end
    """


def test_rows_that_are_there_check_their_end_alone() -> None:
    after = LINES.after(CheckOnce(), CPU, line())
    whole, rest = after.split("end\n")[:2]
    assert "mask" not in whole and "front" not in whole
    assert "valid = [E - copy_K%LINE]" in whole
    assert "front = [" in rest and "mask = (" in rest and "valid = [min(" in rest


def test_checks_are_those_of_the_step_in_which_they_are_hardest() -> None:
    after = LINES.after(CheckOnce(), CPU, line())
    for beyond in ("0 - row + 2", "E - W + row", "0 - row + 1", "0 - H + row + 992//LINE"):
        assert beyond in after.splitlines()[1], beyond


def test_a_last_step_that_is_not_whole_is_one() -> None:
    assert "0 - H + row + 992//LINE" in LINES.after(CheckOnce(), CPU, line().replace("[1024]}", "[1000]}"))


def test_what_is_checked_of_all_rows_stays() -> None:
    after = LINES.after(CheckOnce(), CPU, line("(([copy_K + 8], [E],),)"))
    assert after.count("mask = (([copy_K + 8], [E],),)") == 2


def test_a_check_that_may_fall_and_rise_leaves_the_loop() -> None:
    text = line("(([row + copy_K*copy_K], [H],),)")
    assert LINES.after(CheckOnce(), CPU, text).count("load") == 1


def test_lanes_of_a_wave_check_for_themselves() -> None:
    assert not CheckOnce().applies_to(NVIDIA)


PRODUCT = """
    %zero = constant {value = 0.0} : f32x384
    %sums = for %zero {induction = "copy_K", lower = [0], step = [1], unroll = 1, upper = [90]} : f32x384 (%acc : f32x384) do
      %a = load {mask = MASK, memory = "x", offset = [W*(copy_K//LINE) + copy_K%LINE]} : f32x12
      %b = load {memory = "x", offset = [copy_K*32]} : f32x32
      %next = mma %a, %b, %acc {instruction = "fma_f32_12x32x1"} : f32x384
      yield %next
    end
"""
TAPS = Text(LINES.head.replace("bf16", "f32").replace("by 32", "by 1"))


def test_products_of_rows_in_place_go_on_with_the_sums_of_those_without_checks() -> None:
    mask = "(([-1], [row + copy_K//LINE - 1],), ([(copy_K%LINE)//E + row], [W],),)"
    after = TAPS.after(CheckOnce(), CPU, PRODUCT.replace("MASK", mask))
    whole, rest = (line for line in after.splitlines() if " = for " in line)
    assert f"= for {whole.strip().split(' ')[0]} " in rest
    assert "(LINE - 1)//E" in whole
    assert after.count("mask") == 1


def test_products_whose_checks_are_alike_in_all_steps_stay() -> None:
    text = PRODUCT.replace("MASK", "(([-1], [row - 1],),)")
    assert TAPS.after(CheckOnce(), CPU, text).count(" = for ") == 1
