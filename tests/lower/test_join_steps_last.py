"""What a step joins along several dims is joined along the dim of its loop last."""

from __future__ import annotations

import pytest

from wavespec.ir.kernel import Kernel
from wavespec.ir.parser import parse_kernel
from wavespec.ir.printer import print_kernel
from wavespec.lower.join_steps_last import JoinStepsLast
from wavespec.targets.machine import machines

HEAD = """tile kernel @sums target sm_90 lanes 32
symbol B in 0.. by 1
symbol H in 1.. by 1
symbol W in 1..64 by 1
symbol wg0 in 0.. by 1
symbol at_H in 0.. by 16
split workgroup B 1 0
split loop W 64 0
split loop H 16 0
plan "auto" stages 1 group 0
grid [B]
memory @x : bf16 (B: [B], H: [H], W: [W]) global input
memory @y : f32 (B: [B]) global output
{
  %none = register {value = 0.0} : tile<f32>
  %sums = iterate %none {dim = "H", extent = [H], induction = "at_H", step = [16], unroll = 1} : tile<f32> (%total : tile<f32>) do
    %part = read {memory = "x", origin = (("B", [wg0],), ("H", [at_H],), ("W", [0],),)} : tile<H: 16, W: 64, f32>
BODY
  end
  write %sums {memory = "y", origin = (("B", [wg0],),)}
}
"""
H_FIRST = """
    %over_H = reduce %part {dim = "H", divided = false, function = "add", origin = (("H", [at_H],),), size = [H]} : tile<W: 64, f32>
    %over_W = reduce %over_H, %total {dim = "W", divided = false, function = "add", origin = (("W", [0],),), size = [W]} : tile<f32>
"""
W_FIRST = """
    %over_H = reduce %part {dim = "W", divided = false, function = "add", origin = (("W", [0],),), size = [W]} : tile<H: 16, f32>
    %over_W = reduce %over_H, %total {dim = "H", divided = false, function = "add", origin = (("H", [at_H],),), size = [H]} : tile<f32>
"""


def kernel(body: str, target: str = "sm_90") -> Kernel:
    return parse_kernel(HEAD.replace("BODY", body.strip("\n")).replace("sm_90", target))


def changed(body: str, target: str = "sm_90") -> str:
    return print_kernel(JoinStepsLast()(kernel(body, target), machines(target)[0]))


@pytest.mark.parametrize("target", ["sm_90", "gfx942"])
def test_the_dim_of_the_loop_is_joined_last(target: str) -> None:
    right = print_kernel(kernel(W_FIRST + "    yield %over_W", target))
    assert changed(H_FIRST + "    yield %over_W", target) == right
    assert changed(W_FIRST + "    yield %over_W", target) == right


def test_a_cast_to_the_same_type_is_left_out() -> None:
    named = "    %again = cast %over_W : tile<f32>\n    yield %again"
    assert changed(H_FIRST + named) == print_kernel(kernel(W_FIRST + "    yield %over_W"))


@pytest.mark.parametrize(
    "other",
    [
        '    %seen = elementwise %over_H {function = "neg"} : tile<W: 64, f32>\n    yield %over_W',  # has another use
        '    %twice = elementwise %over_W, %over_W {function = "add"} : tile<f32>\n    yield %twice',
    ],
)
def test_what_is_used_otherwise_stays(other: str) -> None:
    assert changed(H_FIRST + other) == print_kernel(kernel(H_FIRST + other))


def test_reductions_of_other_functions_stay() -> None:
    largest = H_FIRST.replace('"add"', '"maximum"', 1) + "    yield %over_W"
    assert changed(largest) == print_kernel(kernel(largest))


def test_waves_that_take_turns_keep_the_order_of_the_spec() -> None:
    body = H_FIRST + "    yield %over_W"
    assert changed(body, "cpu") == print_kernel(kernel(body, "cpu"))


@pytest.mark.parametrize(("old", "new"), [("W: 64", "W: 16"), ("split loop W 64 0\n", "")])
def test_short_rows_and_dims_of_no_loop_stay(old: str, new: str) -> None:
    text = HEAD.replace("BODY", (H_FIRST + "    yield %over_W").strip("\n")).replace(old, new)
    given = parse_kernel(text)
    assert print_kernel(JoinStepsLast()(given, machines("sm_90")[0])) == print_kernel(given)


def test_a_row_of_one_element_is_joined_first() -> None:
    short = [body.replace("W: 64", "W: 1") + "    yield %over_W" for body in (H_FIRST, W_FIRST)]
    given, right = (parse_kernel(HEAD.replace("BODY", one.strip("\n")).replace("W: 64", "W: 1")) for one in short)
    assert print_kernel(JoinStepsLast()(given, machines("sm_90")[0])) == print_kernel(right)
