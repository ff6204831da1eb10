"""Written-out products with a row outside of a tensor are left out, and what is left is right."""

from __future__ import annotations

import pytest

from tests.kernels import Sizes
from tests.lower.gemms import CPU, NVIDIA
from tests.lower.ir_text import Text
from tests.lower.test_multiply_by_lanes import MACHINES, cases
from tests.sim.cases import lowered_case, run_case
from wavespec.lower.skip_rows import SkipRows

WINDOW = Text("""
    thread kernel @k target cpu lanes 1
    symbol H in 0..4096 by 1
    symbol W in 0..4096 by 1
    symbol wg0 in 0..4095 by 1
    symbol wave_H in 0..63 by 1
    plan "auto" stages 1 group 0
    memory @x : f32 (H: [H], W: [W], C: [16]) global input mapped
    memory @w : f32 (K: [16], N: [16]) global input
    memory @y : f32 (H: [H], N: [16]) global output
""")
ABOVE, COLUMN = "([-1], [wave_H - 1],)", "([wg0], [W],)"
SMALL: Sizes = {"N": 1, "H": 2, "W": 8, "C": 16, "O": 16, "R": 3, "S": 3, "D": 16}


def window(rows: tuple[str, ...], products: int) -> str:
    """A step adds products of one vector of each row, which is checked so, to one sum."""
    loads, dots, before = list[str](), list[str](), "%zero"
    for row, checks in enumerate(rows):
        loads.append(
            f'%x{row} = load {{mask = ({checks},), memory = "x", offset = [(W*wave_H + wg0 + {row})*16]}} : f32x16'
        )
        for number in range(products):
            dots.append(f'%s{row}.{number} = dot %x{row}, %taps, {before} {{instruction = "lanes_f32", runs = 1, '
                        f'start = {number % 16}}} : f32x16')  # fmt: skip
            before = f"%s{row}.{number}"
    inside = "\n        ".join([*loads, *dots])
    return f"""
      %zero = constant {{value = 0.0}} : f32x16
      %taps = load {{memory = "w", offset = [0]}} : f32x16
      for {{induction = "wave_H", lower = [0], step = [1], unroll = 1, upper = [min(H, 64)]}} () do
        {inside}
        store {before} {{memory = "y", offset = [wave_H*16]}}
        yield
      end
    """


def test_a_row_that_may_be_outside_is_a_loop_of_one_step_or_none() -> None:
    after = WINDOW.after(SkipRows(), CPU, window((f"{ABOVE}, {COLUMN}", COLUMN), 128))
    assert after.count("= for %zero") == 1
    assert "upper = [0 - max(0 - wave_H + 1, 0) + 1]" in after
    assert ABOVE not in after, "what the loop says is not checked of its loads"
    assert after.count(COLUMN) == 2
    assert after.count("= dot") == 2 * 128


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(window((f"{ABOVE}, {COLUMN}", COLUMN), 8), id="few products"),
        pytest.param(window((f"{ABOVE}, {COLUMN}", COLUMN), 300), id="very many"),
        pytest.param(window((COLUMN, COLUMN), 128), id="rows that are always there"),
        pytest.param(window((f"{ABOVE}, {COLUMN}",) * 2, 128), id="all rows have the same check"),
        pytest.param(
            window((f"{ABOVE}, {COLUMN}", COLUMN), 128).replace("store %s1.127", "store %s0.5"),
            id="a sum on the way is stored",
        ),
    ],
)
def test_other_steps_stay(body: str) -> None:
    assert " = for" not in WINDOW.after(SkipRows(), CPU, body)


def test_rows_are_skipped_where_waves_run_one_after_another() -> None:
    assert not SkipRows().applies_to(NVIDIA)


@pytest.mark.rare
@pytest.mark.parametrize("variant", ["x86_64_v4_bf16", "aarch64_v8_6"])
def test_groups_of_sixteen_are_right(variant: str) -> None:
    subject, found = cases("conv2d_grouped")
    (case,) = (one for one in found if "D == 16" in map(str, one.when))
    sizes, machine = subject.complete(SMALL), MACHINES[variant]
    inputs = subject.inputs(sizes)
    subject.check(inputs, run_case(subject, case, lowered_case(case, machine), machine, sizes, inputs), sizes)
