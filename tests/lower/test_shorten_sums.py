"""Sums of many steps are sums of sums."""

from __future__ import annotations

import pytest

from tests.lower.gemms import CPU, NVIDIA
from tests.lower.ir_text import Text, lines
from wavespec.lower.shorten_sums import ShortenSums

ROWS = Text("""
    thread kernel @k target cpu lanes 1
    symbol N in 0..100000 by 1
    symbol at_N in 0.. by 8
    plan "auto" stages 1 group 0
    memory @x : f32 (N: [N]) global input
    memory @y : f32 (N: [1]) global output
""")


def sums(step: str = "[8]", upper: str = "[N]", dtype: str = "f32", last: str = "%total, %seen") -> str:
    """A loop that adds up what it loads, and carries what it loaded last."""
    return f"""
      %zero = constant {{value = 0.0}} : {dtype}x8
      %sum, %kept = for %zero, %zero {{induction = "at_N", lower = [0], step = {step}, unroll = 1, upper = {upper}}} : {dtype}x8, {dtype}x8 (%part : {dtype}x8, %before : {dtype}x8) do
        %seen = load {{memory = "x", offset = [at_N]}} : {dtype}x8
        %total = elementwise %part, %seen {{function = "add"}} : {dtype}x8
        yield {last}
      end
      store %sum {{memory = "y", offset = [0]}}
      store %kept {{memory = "y", offset = [0]}}
    """


def test_sums_of_blocks_start_at_zero_and_other_values_go_on() -> None:
    after = ROWS.after(ShortenSums(), NVIDIA, sums())
    assert after == lines("""
        %zero = constant {value = 0.0} : f32x8
        %sum, %kept = for %zero, %zero {induction = "at_N_block", lower = [0], step = [256], unroll = 1, upper = [N]} : f32x8, f32x8 (%part.1 : f32x8, %before.1 : f32x8) do
          %part.2 = constant {value = 0.0} : f32x8
          %sum.1, %kept.1 = for %part.2, %before.1 {induction = "at_N", lower = [at_N_block], step = [8], unroll = 1, upper = [min(N, at_N_block + 256)]} : f32x8, f32x8 (%part : f32x8, %before : f32x8) do
            %seen = load {memory = "x", offset = [at_N]} : f32x8
            %total = elementwise %part, %seen {function = "add"} : f32x8
            yield %total, %seen
          end
          %sum.2 = elementwise %part.1, %sum.1 {function = "add"} : f32x8
          yield %sum.2, %kept.1
        end
        store %sum {memory = "y", offset = [0]}
        store %kept {memory = "y", offset = [0]}
    """)


def test_blocks_meet_in_the_type_that_the_machine_has_for_long_sums() -> None:
    after = ROWS.after(ShortenSums(), CPU, sums())
    assert after == lines("""
        %zero = constant {value = 0.0} : f32x8
        %zero.1 = cast %zero : f64x8
        %sum.2, %kept = for %zero.1, %zero {induction = "at_N_block", lower = [0], step = [128], unroll = 1, upper = [N]} : f64x8, f32x8 (%part.1 : f64x8, %before.1 : f32x8) do
          %part.2 = constant {value = 0.0} : f32x8
          %sum.1, %kept.1 = for %part.2, %before.1 {induction = "at_N", lower = [at_N_block], step = [8], unroll = 1, upper = [min(N, at_N_block + 128)]} : f32x8, f32x8 (%part : f32x8, %before : f32x8) do
            %seen = load {memory = "x", offset = [at_N]} : f32x8
            %total = elementwise %part, %seen {function = "add"} : f32x8
            yield %total, %seen
          end
          %part.4 = cast %sum.1 : f64x8
          %part.3 = elementwise %part.1, %part.4 {function = "add"} : f64x8
          yield %part.3, %kept.1
        end
        %sum = cast %sum.2 : f32x8
        store %sum {memory = "y", offset = [0]}
        store %kept {memory = "y", offset = [0]}
    """)


@pytest.mark.parametrize(
    "body",
    (
        pytest.param(sums(step="[256]"), id="steps of many elements"),
        pytest.param(sums(upper="[512]"), id="few steps"),
        pytest.param(sums(last="%total, %total"), id="a sum that each step shows"),
        pytest.param(sums().replace('"add"', '"maximum"'), id="another function"),
    ),
)
def test_other_loops_stay(body: str) -> None:
    assert ROWS.after(ShortenSums(), CPU, body) == lines(body)


def test_sums_of_f64_stay() -> None:
    body = sums(dtype="f64")
    rows = ROWS.changed(("x : f32", "x : f64"), ("y : f32", "y : f64"))
    assert rows.after(ShortenSums(), CPU, body) == lines(body)


PRODUCT = """
    %zero = constant {{value = 0.0}} : f32x256
    %sums = for %zero {{induction = "at_N", lower = [0], step = [1], unroll = 1, upper = [{upper}]}} : f32x256 (%part : f32x256) do
      %left = load {{memory = "x", offset = [at_N]}} : f32x8
      %right = load {{memory = "x", offset = [at_N]}} : f32x32
      %total = mma %left, %right, %part {{instruction = "fma_f32_8x32x1"}} : f32x256
      yield %total
    end
    store %sums {{memory = "y", offset = [0]}}
"""


def test_products_are_summed_in_blocks_of_what_their_instruction_sums_at_once() -> None:
    rows = ROWS.changed(("at_N in 0.. by 8", "at_N in 0.. by 1"))
    after = rows.after(ShortenSums(), CPU, PRODUCT.format(upper="N"))
    assert after == lines("""
        %zero = constant {value = 0.0} : f32x256
        %sums = for %zero {induction = "at_N_block", lower = [0], step = [128], unroll = 1, upper = [N]} : f32x256 (%part.1 : f32x256) do
          %part.2 = constant {value = 0.0} : f32x256
          %sums.1 = for %part.2 {induction = "at_N", lower = [at_N_block], step = [1], unroll = 1, upper = [min(N, at_N_block + 128)]} : f32x256 (%part : f32x256) do
            %left = load {memory = "x", offset = [at_N]} : f32x8
            %right = load {memory = "x", offset = [at_N]} : f32x32
            %total = mma %left, %right, %part {instruction = "fma_f32_8x32x1"} : f32x256
            yield %total
          end
          %sums.2 = elementwise %part.1, %sums.1 {function = "add"} : f32x256
          yield %sums.2
        end
        store %sums {memory = "y", offset = [0]}
    """)
    short = PRODUCT.format(upper="128")
    assert rows.after(ShortenSums(), CPU, short) == lines(short)


def test_products_of_lanes_are_summed_in_blocks_too_one_behind_the_other() -> None:
    rows = ROWS.changed(("at_N in 0.. by 8", "at_N in 0.. by 2"))
    body = """
        %zero = constant {value = 0.0} : f32x16
        %sums = for %zero {induction = "at_N", lower = [0], step = [2], unroll = 1, upper = [N]} : f32x16 (%part : f32x16) do
          %factors = load {memory = "x", offset = [at_N]} : f32x2
          %row = load {memory = "x", offset = [at_N]} : f32x16
          %half = dot %factors, %row, %part {instruction = "lanes_f32", runs = 1, start = 0} : f32x16
          %total = dot %factors, %row, %half {instruction = "lanes_f32", runs = 1, start = 1} : f32x16
          yield %total
        end
        store %sums {memory = "y", offset = [0]}
    """
    after = rows.after(ShortenSums(), CPU, body)
    assert 'induction = "at_N_block", lower = [0], step = [128]' in after
    assert (
        'induction = "at_N", lower = [at_N_block], step = [2], unroll = 1, upper = [min(N, at_N_block + 128)]' in after
    )
    assert '%sums.2 = elementwise %part.1, %sums.1 {function = "add"}' in after
    also_used = body.replace("yield", 'store %half {memory = "y", offset = [0]}\n          yield')
    assert rows.after(ShortenSums(), CPU, also_used) == lines(also_used)


def up_to(longest: int) -> Text:
    """Rows of a size that is known to be at most that, and a result of another dim."""
    return ROWS.changed(
        ("N in 0..100000", f"N in 0..{longest}"), ("at_N in 0.. by 8", "at_N in 0.. by 1"), ("(N: [1])", "(M: [1])")
    )


@pytest.mark.parametrize(("longest", "block"), ((256, 16), (257, 128)))
def test_all_of_a_short_dim_is_summed_in_short_blocks(longest: int, block: int) -> None:
    """Few rows are, for torch, products of vectors, which sum many parts at a time."""
    after = up_to(longest).after(ShortenSums(), CPU, PRODUCT.format(upper="N"))
    assert f'induction = "at_N_block", lower = [0], step = [{block}]' in after


def test_a_tile_of_a_short_dim_stays() -> None:
    body = PRODUCT.format(upper="min(N, 128)")
    assert up_to(256).after(ShortenSums(), CPU, body) == lines(body)
