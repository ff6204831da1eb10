"""What does not change in a loop stands before it, and nothing else moves."""

from wavespec.ir.parser import parse_kernel
from wavespec.ir.printer import print_kernel
from wavespec.lower.hoist_invariants import HoistInvariants
from wavespec.targets import machines

HEAD = """thread kernel @k target gfx942 lanes 64
symbol K in {low}..4096 by 1
symbol lane in 0..63 by 1
symbol at_K in 0..4064 by 32
plan "auto" stages 1 group 1
memory @bias : f32 (N: [64]) global input
memory @x : f32 (K: [K]) global input
memory @y : f32 (N: [64]) global output
{{
"""
LOOP = """  %zero = constant {{value = 0.0}} : f32x1
  %sum = for %zero {{induction = "at_K", lower = [0], step = [32], unroll = 1, upper = [K]}} : f32x1 (%acc : f32x1) do
    %bias = load {{memory = "bias", offset = [lane]{mask}}} : f32x1
    %twice = pack %bias, %bias : f32x2
    %x = load {{memory = "x", offset = [at_K]}} : f32x1
    %more = add %x, %twice : f32x1
    %next = add %acc, %more : f32x1
    yield %next
  end
  store %sum {{memory = "y", offset = [lane]}}
}}
"""


def hoisted(low: int, mask: str = "") -> list[str]:
    kernel = parse_kernel(HEAD.format(low=low) + LOOP.format(mask=mask))
    text = print_kernel(HoistInvariants()(kernel, machines("gfx942")[0]))
    before, _, _ = text[text.index("{\n") :].partition("%sum")
    return [line.split()[0] for line in before.splitlines()[1:] if line.strip()]


def test_load_and_its_arithmetic_move_out_of_a_loop_that_runs():
    assert hoisted(low=1) == ["%zero", "%bias", "%twice"]


def test_unmasked_load_stays_in_a_loop_that_may_not_run():
    assert hoisted(low=0) == ["%zero"]


def test_masked_load_moves_out_of_any_loop():
    assert hoisted(low=0, mask=", mask = (([lane], [64],),)") == ["%zero", "%bias", "%twice"]


def test_what_uses_the_induction_or_the_carried_value_stays():
    assert not {"%x", "%more", "%next"} & set(hoisted(low=1))


def test_what_uses_a_symbol_that_the_body_defines_stays():
    head = HEAD.format(low=1).replace('plan "auto"', 'symbol wg0 in 0..4064 by 1\nplan "auto"')
    loop = LOOP.format(mask="").replace("offset = [lane]} : f32x1\n    %twice", "offset = [wg0]} : f32x1\n    %twice")
    loop = loop.replace("    %bias", '    let {symbol = "wg0", value = [at_K]}\n    %bias', 1)
    kernel = HoistInvariants()(parse_kernel(head + loop), machines("gfx942")[0])
    inside = next(op for op in kernel.body if op.name == "for").body.ops
    assert [op.name for op in inside][:3] == ["let", "load", "pack"]
