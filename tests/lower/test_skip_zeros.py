"""Products with what is outside of a tensor are left out."""

from __future__ import annotations

import pytest

from tests.lower.gemms import CPU, NVIDIA
from tests.lower.ir_text import Text
from wavespec.lower.drop_checks import DropChecks
from wavespec.lower.skip_zeros import SkipZeros

TAPS = Text("""
    thread kernel @k target cpu lanes 1
    symbol P in 0..4096 by 1
    symbol C in 0..4096 by 64
    symbol wg0 in 0..4095 by 1
    symbol in_K in 0..63 by 1
    plan "auto" stages 1 group 0
    memory @x : f32 (P: [P], C: [C]) global input mapped
    memory @w : f32 (K: [64], N: [32]) global input
    memory @y : f32 (M: [8], N: [32]) global output
""")
ROW = "mask = (([-1], [wg0 - 1],), ([wg0 - 1], [P],), ([in_K], [C],),)"


def product(masks: tuple[str, ...] = (ROW,) * 8, last: str = "%after") -> str:
    """Sums of products of one element in each of eight rows, at places that are checked so."""
    loads = "\n".join(
        f'        %x{row} = load {{{mask}, memory = "x", offset = [wg0*C + {row} + in_K]}} : f32x1'
        for row, mask in enumerate(masks)
    )
    return f"""
      %zero = constant {{value = 0.0}} : f32x256
      %sums = for %zero {{induction = "in_K", lower = [0], step = [1], unroll = 1, upper = [64]}} : f32x256 (%sum : f32x256) do
{loads}
        %rows = pack {", ".join(f"%x{row}" for row in range(8))} : f32x8
        %columns = load {{memory = "w", offset = [in_K*32]}} : f32x32
        %after = mma %rows, %columns, %sum {{instruction = "fma_f32_8x32x1"}} : f32x256
        yield {last}
      end
      store %sums {{memory = "y", offset = [0]}}
    """


def test_a_loop_has_no_step_where_all_that_it_reads_is_outside() -> None:
    after = TAPS.after(SkipZeros(), CPU, product())
    beyond = "max(max(max(0 - wg0 + 1, 0), 0 - P + wg0), 0 - C + 1)"
    assert f"upper = [0 - min({beyond}, 1)*64 + 64]" in after


OTHER = "mask = (([-1], [wg0 - 1],), ([wg0 - 1], [P],), ([wg0 + 1], [P],), ([in_K], [C],),)"
STEP = "mask = (([wg0 + in_K], [P],),)"


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(product(masks=(*(ROW,) * 7, OTHER)), id="rows are checked in ways of their own"),
        pytest.param(product(masks=(STEP,) * 8), id="each step is checked anew"),
        pytest.param(product(masks=(*(ROW,) * 7, "")).replace("{, memory", "{memory"), id="a row is always there"),
    ],
)
def test_a_loop_that_may_add_something_stays(body: str) -> None:
    assert "upper = [64]" in TAPS.after(SkipZeros(), CPU, body)


def test_rows_in_one_line_of_an_image_are_skipped_with_the_first_of_them() -> None:
    """Where the last of them is in the next line, the loop stays: one of both may be inside."""
    line, column = "(wg0*9 + {0})//C - 1", "(wg0*9 + {0})%C + 1"
    mask = f"mask = (([-1], [{line}],), ([{line}], [P],), ([{column}], [C],),)"
    after = TAPS.after(SkipZeros(), CPU, product(masks=tuple(mask.format(row) for row in range(8))))
    (upper,) = [line.split("upper = ")[1].split(" : ")[0] for line in after.splitlines() if "= for" in line]
    assert upper.count("min(0 - (wg0*9)//C + (wg0*9 + 7)//C, 1)") and "%C" not in upper


def test_a_check_that_all_rows_have_in_common_decides_for_all() -> None:
    """A tap that a phase does not have is behind the images; what a step is at is inside, and not asked for."""
    line = "(wg0*9 + {0})//C - 1"
    mask = f"mask = (([(wg0 + 1)//3], [1],), ([wg0], [P],), ([{line}], [P],),)"
    after = TAPS.after(SkipZeros(), CPU, product(masks=tuple(mask.format(row) for row in range(8))))
    (upper,) = [line.split("upper = ")[1].split(" : ")[0] for line in after.splitlines() if "= for" in line]
    assert "(wg0 + 1)//3" in upper and "max(0, wg0" not in upper


def test_zeros_are_skipped_where_waves_run_one_after_another() -> None:
    assert not SkipZeros().applies_to(NVIDIA) and not DropChecks().applies_to(NVIDIA)


@pytest.mark.parametrize("upper", ["[min(C - wg0*64, 64)]", "[min(((C - wg0*64)//2)*2, 64)]", "[C - wg0*64]"])
def test_what_the_end_of_a_loop_says_is_not_checked_again(upper: str) -> None:
    check = "mask = (([wg0], [P],), ([wg0*64 + in_K], [C],),)"
    body = product(masks=(check,) * 8).replace("upper = [64]", f"upper = {upper}")
    after = TAPS.after(DropChecks(), CPU, body)
    assert after.count("mask = (([wg0], [P],),)") == 8


def test_what_it_does_not_say_is_checked() -> None:
    check = "mask = (([wg0*64 + in_K + 1], [C],),)"
    body = product(masks=(check,) * 8).replace("upper = [64]", "upper = [min(C - wg0*64, 64)]")
    assert TAPS.after(DropChecks(), CPU, body).count("mask = (([in_K + wg0*64 + 1], [C],),)") == 8


@pytest.mark.parametrize(("beyond", "left"), [(1, 0), (2, 8)])
def test_whole_steps_end_in_front_of_the_end(beyond: int, left: int) -> None:
    """Of steps of two, the second element is there, too, where the loop has whole ones."""
    check = f"mask = (([wg0*64 + in_K + {beyond}], [C],),)"
    end = "upper = [min(((C - wg0*64)//2)*2, 64)]"
    body = product(masks=(check,) * 8).replace("upper = [64]", end).replace("step = [1]", "step = [2]")
    assert "step = [2]" in body
    assert TAPS.after(DropChecks(), CPU, body).count("[C]") == left


@pytest.mark.parametrize(("end", "left"), [("C//16 - wg0*4", 0), ("C//16 - wg0*4 + 1", 8)])
def test_waves_of_several_elements_end_where_their_dim_does(end: str, left: int) -> None:
    check = "mask = (([wg0], [P],), ([in_K*16 + wg0*64], [C],),)"
    body = product(masks=(check,) * 8).replace("upper = [64]", f"upper = [min({end}, 4)]")
    assert TAPS.after(DropChecks(), CPU, body).count("[C]") == left
