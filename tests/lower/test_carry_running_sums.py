"""What running sums of f32 start from is carried in a type that keeps its error."""

from __future__ import annotations

import pytest

from tests.lower.gemms import CPU, NVIDIA
from tests.lower.ir_text import ROWS, lines
from tests.lower.test_widen_sums import RUNNING
from wavespec.lower.carry_running_sums import CarryRunningSums


def test_a_carried_sum_is_f64_and_elements_add_two_numbers_of_f32() -> None:
    assert ROWS.after(CarryRunningSums(), NVIDIA, RUNNING) == lines("""
        %none = register {value = 0.0} : tile<M: 4, f32>
        %before.12 = cast %none : tile<M: 4, f64>
        %before.4 = iterate %before.12 {dim = "N", extent = [N], induction = "at_N", step = [64], unroll = 1} : tile<M: 4, f64> (%before.2 : tile<M: 4, f64>) do
          %before = cast %before.2 : tile<M: 4, f32>
          %before.6 = cast %before : tile<M: 4, f64>
          %before.7 = elementwise %before.2, %before.6 {function = "sub"} : tile<M: 4, f64>
          %before.8 = cast %before.7 : tile<M: 4, f32>
          %before.9 = elementwise %before {function = "isfinite"} : tile<M: 4, bool>
          %before.5 = elementwise %before.9, %before.8, %before {function = "where"} : tile<M: 4, f32>
          %part = read {memory = "x", origin = (("M", [wg0*4],), ("N", [at_N],),)} : tile<M: 4, N: 64, f32>
          %run.1 = scan %part {dim = "N", function = "add"} : tile<M: 4, N: 64, f32>
          %run.2 = elementwise %run.1, %before.5 {function = "add"} : tile<M: 4, N: 64, f32>
          %run = elementwise %run.2, %before {function = "add"} : tile<M: 4, N: 64, f32>
          write %run {memory = "x", origin = (("M", [wg0*4],), ("N", [at_N],),)}
          %before.10 = reduce %part {dim = "N", divided = false, function = "add", origin = (("N", [at_N],),), size = [N]} : tile<M: 4, f32>
          %before.11 = cast %before.10 : tile<M: 4, f64>
          %before.3 = elementwise %before.2, %before.11 {function = "add"} : tile<M: 4, f64>
          yield %before.3
        end
        %total = cast %before.4 : tile<M: 4, f32>
        write %total {memory = "y", origin = (("M", [wg0*4],),)}
    """)


def test_what_starts_as_f64_is_not_rounded_in_front() -> None:
    start = RUNNING.replace(
        "    %none = register {value = 0.0} : tile<M: 4, f32>\n",
        "    %exact = register {value = 0.0} : tile<M: 4, f64>\n    %none = cast %exact : tile<M: 4, f32>\n",
    )
    kernel = CarryRunningSums()(ROWS.kernel(start), NVIDIA)
    (loop,) = (op for op in kernel.body if op.name == "iterate")
    assert loop.operands == kernel.body[0].results


def test_what_else_uses_the_sum_of_a_step_has_it_rounded() -> None:
    used = RUNNING.replace(
        "      yield", '      write %before.1 {memory = "y", origin = (("M", [wg0*4],),)}\n      yield'
    )
    kernel = CarryRunningSums()(ROWS.kernel(used), NVIDIA)
    (loop,) = (op for op in kernel.body if op.name == "iterate")
    assert [op.name for op in loop.body.ops[-3:]] == ["elementwise", "cast", "write"]
    assert loop.body.ops[-1].operands == loop.body.ops[-2].results


OTHERS = {
    "no running sum starts from it": ("scan %part, %before", "scan %part"),
    "a product": ('"add"', '"mul"'),
    "a larger type": ("f32", "f64"),
}


@pytest.mark.parametrize("change", OTHERS.values(), ids=OTHERS)
def test_other_loops_stay(change: tuple[str, str]) -> None:
    kernel = ROWS.kernel(RUNNING.replace(*change)) if "f64" not in change else None
    if kernel is None:  # memories have types of their own
        kernel = ROWS.changed(("f32", "f64")).kernel(RUNNING.replace(*change))
    assert CarryRunningSums()(kernel, NVIDIA).body == kernel.body


def test_machines_that_make_running_sums_in_f64_carry_them_so_already() -> None:
    kernel = ROWS.kernel(RUNNING)
    assert CarryRunningSums()(kernel, CPU) is kernel
