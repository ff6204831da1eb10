"""What a loop in a loop leaves to its end goes on to the next step of the loop around it."""

from __future__ import annotations

from wavespec.ir.kernel import Kernel
from wavespec.ir.parser import parse_kernel
from wavespec.ir.printer import print_kernel
from wavespec.lower.pass_parts_on import PassPartsOn
from wavespec.targets.machine import machines

HEAD = """tile kernel @sums target sm_90 lanes 32
symbol B in 0.. by 1
symbol H in 1.. by 1
symbol W in 1.. by 1
symbol wg0 in 0.. by 1
symbol at_H in 0.. by 1
symbol at_W in 0.. by 64
split workgroup B 1 0
split loop W 64 0
split loop H 1 0
plan "auto" stages 1 group 0
grid [B]
memory @x : f32 (B: [B], H: [H], W: [W]) global input
memory @y : f32 (B: [B]) global output
{
  %none = register {value = 0.0} : tile<f32>
BODY
  write %sums {memory = "y", origin = (("B", [wg0],),)}
}
"""
ROWS = 'iterate {START} {dim = "H", extent = [H], induction = "at_H", step = [1], unroll = 1}'
STEPS = """%parts = iterate %FROM {dim = "W", extent = [W], induction = "at_W", step = [64], unroll = 1} : tile<W: 64, f32> (%so_far : tile<W: 64, f32>) do
      %part = read {memory = "x", origin = (("B", [wg0],), ("H", [at_H],), ("W", [at_W],),)} : tile<W: 64, f32>
      %joined = join %so_far, %part {dim = "W", function = "add", origin = (("W", [at_W],),), size = [W]} : tile<W: 64, f32>
      yield %joined
    end"""
BEFORE = f"""  %sums = {ROWS.replace("{START}", "%none")} : tile<f32> (%total : tile<f32>) do
    %first = register {{value = NOTHING}} : tile<W: 64, f32>
    {STEPS.replace("%FROM", "%first")}
    %row = reduce %parts, %total {{dim = "W", divided = false, function = "add", size = [W]}} : tile<f32>
    yield %row
  end"""


def kernel(body: str) -> Kernel:
    return parse_kernel(HEAD.replace("BODY", body))


def changed(body: str, target: str = "sm_90") -> Kernel:
    return PassPartsOn()(kernel(body), machines(target)[0])


def test_the_loop_around_carries_the_parts() -> None:
    first, loop, end, *_ = changed(BEFORE.replace("NOTHING", "0.0")).body[1:]
    assert first.name == "register" and first.result.tile.dims == ("W",)
    assert loop.operands == first.results and [op.name for op in loop.body.ops] == ["iterate"]
    assert loop.body.ops[0].operands == loop.body.arguments and loop.body.yields == loop.body.ops[0].results
    assert end.name == "reduce" and end.operands[0] == loop.result and end.operands[1].name == "none"
    assert end.result.name == "sums"


def test_parts_that_start_from_something_stay() -> None:
    body = BEFORE.replace("NOTHING", "1.0")
    assert print_kernel(changed(body)) == print_kernel(kernel(body))


def test_what_a_step_uses_stays() -> None:
    body = BEFORE.replace("NOTHING", "0.0").replace(
        "    yield %row", '    %other = elementwise %row, %row {function = "add"} : tile<f32>\n    yield %other'
    )
    assert print_kernel(changed(body)) == print_kernel(kernel(body))


def test_waves_that_take_turns_join_at_each_step() -> None:
    body = BEFORE.replace("NOTHING", "0.0")
    assert print_kernel(changed(body, "cpu")) == print_kernel(kernel(body))
