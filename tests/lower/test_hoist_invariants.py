"""What does not change in a loop stands before it, and nothing else moves."""

from __future__ import annotations

import pytest

from tests.lower.gemms import AMD
from tests.lower.ir_text import Text, lines
from wavespec.lower.hoist_invariants import HoistInvariants

RUNS = Text("""
    thread kernel @k target gfx942 lanes 64
    symbol K in 1..4096 by 1
    symbol lane in 0..63 by 1
    symbol wg0 in 0..4064 by 1
    symbol at_K in 0..4064 by 32
    plan "auto" stages 1 group 1
    memory @bias : f32 (N: [64]) global input
    memory @x : f32 (K: [K]) global input
    memory @y : f32 (N: [64]) global output
""")
MAY_NOT_RUN = RUNS.changed(("K in 1..", "K in 0.."))
LOOP = """
    %zero = constant {value = 0.0} : f32x2
    %sum = for %zero {induction = "at_K", lower = [0], step = [32], unroll = 1, upper = [K]} : f32x2 (%acc : f32x2) do
      %bias = load {memory = "bias", offset = [lane]} : f32x1
      %twice = pack %bias, %bias : f32x2
      %x = load {memory = "x", offset = [at_K]} : f32x2
      %more = elementwise %x, %twice {function = "add"} : f32x2
      %next = elementwise %acc, %more {function = "add"} : f32x2
      yield %next
    end
    store %sum {memory = "y", offset = [lane]}
"""
MASKED = LOOP.replace("offset = [lane]}", "offset = [lane], mask = (([lane], [64],),)}")


def hoisted(text: Text, body: str) -> list[str]:
    """Names of the values that are made before the loop."""
    before, _, _ = text.after(HoistInvariants(), AMD, body).partition("%sum = for")
    return [line.split()[0] for line in before.splitlines() if line]


def test_load_and_its_arithmetic_move_out_of_a_loop_that_runs() -> None:
    assert RUNS.after(HoistInvariants(), AMD, LOOP) == lines("""
        %zero = constant {value = 0.0} : f32x2
        %bias = load {memory = "bias", offset = [lane]} : f32x1
        %twice = pack %bias, %bias : f32x2
        %sum = for %zero {induction = "at_K", lower = [0], step = [32], unroll = 1, upper = [K]} : f32x2 (%acc : f32x2) do
          %x = load {memory = "x", offset = [at_K]} : f32x2
          %more = elementwise %x, %twice {function = "add"} : f32x2
          %next = elementwise %acc, %more {function = "add"} : f32x2
          yield %next
        end
        store %sum {memory = "y", offset = [lane]}
    """)


def test_unmasked_load_stays_in_a_loop_that_may_not_run() -> None:
    kernel = MAY_NOT_RUN.kernel(LOOP)
    assert HoistInvariants()(kernel, AMD) is kernel


def test_masked_load_moves_out_of_any_loop_and_asks_whether_it_runs() -> None:
    assert hoisted(RUNS, MASKED) == ["%zero", "%bias", "%twice"]
    found = MAY_NOT_RUN.after(HoistInvariants(), AMD, MASKED).splitlines()
    assert '%bias = load {mask = (([0], [K],), ([lane], [64],),), memory = "bias", offset = [lane]} : f32x1' in found


def test_what_uses_a_symbol_that_the_body_defines_stays() -> None:
    let = '      let {symbol = "wg0", value = [at_K]}\n      %bias'
    body = LOOP.replace('"bias", offset = [lane]', '"bias", offset = [wg0]').replace("      %bias", let)
    kernel = RUNS.kernel(body)
    assert HoistInvariants()(kernel, AMD) is kernel


@pytest.mark.parametrize("change", [("upper = [K]", "upper = [1], once = true"), ('memory = "bias"', 'memory = "y"')])
def test_branches_and_loads_of_results_stay(change: tuple[str, str]) -> None:
    kernel = RUNS.kernel(LOOP.replace(*change))
    assert HoistInvariants()(kernel, AMD) is kernel


def test_out_of_two_loops_it_moves_in_front_of_both() -> None:
    inner = LOOP.split("    store")[0].replace("    %zero = constant {value = 0.0} : f32x2\n", "").strip("\n")
    body = f"""
    %zero = constant {{value = 0.0}} : f32x2
    for {{induction = "wg0", lower = [0], step = [1], unroll = 1, upper = [4]}} () do
{inner}
      store %sum {{memory = "y", offset = [wg0]}}
      yield
    end
"""
    assert RUNS.after(HoistInvariants(), AMD, body).splitlines()[1:5] == [
        "%zero = constant {value = 0.0} : f32x2",
        '%bias = load {memory = "bias", offset = [lane]} : f32x1',
        "%twice = pack %bias, %bias : f32x2",
        'for {induction = "wg0", lower = [0], step = [1], unroll = 1, upper = [4]} () do',
    ]
