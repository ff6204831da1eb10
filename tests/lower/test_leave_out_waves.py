"""Waves whose rows are not there: one lane awaits and gives the signals of the others, and nothing else is done."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.kernels import subjects
from tests.lower.gemms import NVIDIA
from tests.lower.ir_text import Text, body_text, lines
from wavespec.ir.kernel import Kernel, Op
from wavespec.lower.leave_out_waves import LeaveOutWaves
from wavespec.pipeline import lower

TILES = Text("""
    thread kernel @k target sm_90 lanes 32
    symbol M in 0..640 by 1
    symbol K in 0..640 by 1
    symbol wg0 in 0..9 by 1
    symbol wave_M in 0..1 by 1
    symbol lane in 0..31 by 1
    symbol at_K in 0..640 by 8
    symbol next in 0..10 by 1
    symbol round in 0..9 by 1
    symbol value_length in -2147483648..2147483647 by 1
    split workgroup M 64 0
    split loop K 8 0
    split wave M 32 0
    plan "auto" stages 2 group 1 persistent roles 1 together 24 240
    wave wave_M 2
    producers 1
    grid [1]
    memory @lengths : i32 (K: [K]) global input
    memory @y : f32 (M: [M]) global output
    memory @full : i64 () signal x2 arrivals 1
    memory @empty : i64 () signal x2 arrivals 2
""")
BODY = """
    %length = load {memory = "lengths", offset = [0]} : i32x1
    bind %length {symbol = "value_length", uniform = true}
    for {induction = "round", lower = [0], step = [1], unroll = 1, upper = [10], goes_on = [1]} () do
      let {symbol = "wg0", value = [round]}
      tiles_end {dim = "M", extent = [value_length]}
      %none = constant {value = 0.0} : f32x1
      %sum = for %none {induction = "at_K", lower = [0], step = [8], unroll = 1, upper = [K]} : f32x1 (%before : f32x1) do
        signal_wait {index = [at_K//8%2], phase = [at_K//16%2], signal = "full"}
        %after = elementwise %before, %before {function = "add"} : f32x1
        if {mask = (([lane], [1],),)} () do
          signal_arrive {bytes = 0, index = [at_K//8%2], signal = "empty"}
          yield
        end
        yield %after
      end
      store %sum {memory = "y", offset = [wg0*64 + wave_M*32 + lane]}
      %next = coordinates {places = ([round + 1],)} : i32x1
      bind %next {symbol = "next"}
      yield
    end
"""


def test_a_lane_signals_for_a_wave_without_rows() -> None:
    """In front of what the others do, whose registers it would keep; what the next tile needs is done by all."""
    assert TILES.after(LeaveOutWaves(), NVIDIA, BODY) == lines("""
        %length = load {memory = "lengths", offset = [0]} : i32x1
        bind %length {symbol = "value_length", uniform = true}
        for {goes_on = [1], induction = "round", lower = [0], step = [1], unroll = 1, upper = [10]} () do
          let {symbol = "wg0", value = [round]}
          %none = constant {value = 0.0} : f32x1
          if {mask = (([value_length - wave_M*32 - wg0*64], [1],),)} () do
            if {mask = (([lane], [1],),)} () do
              for {induction = "at_K", lower = [0], step = [8], unroll = 1, upper = [K]} () do
                signal_wait {index = [(at_K//8)%2], phase = [(at_K//16)%2], signal = "full"}
                if {mask = (([lane], [1],),)} () do
                  signal_arrive {bytes = 0, index = [(at_K//8)%2], signal = "empty"}
                  yield
                end
                yield
              end
              yield
            end
            barrier {first = [wave_M], waves = 1}
            yield
          end
          if {mask = (([0], [value_length - wave_M*32 - wg0*64],),)} () do
            %sum = for %none {induction = "at_K", lower = [0], step = [8], unroll = 1, upper = [K]} : f32x1 (%before : f32x1) do
              signal_wait {index = [(at_K//8)%2], phase = [(at_K//16)%2], signal = "full"}
              %after = elementwise %before, %before {function = "add"} : f32x1
              if {mask = (([lane], [1],),)} () do
                signal_arrive {bytes = 0, index = [(at_K//8)%2], signal = "empty"}
                yield
              end
              yield %after
            end
            store %sum {memory = "y", offset = [lane + wave_M*32 + wg0*64]}
            yield
          end
          %next = coordinates {places = ([round + 1],)} : i32x1
          bind %next {symbol = "next"}
          yield
        end
    """)


STAYS: dict[str, tuple[str, str]] = {
    "every lane arrives": ("if {mask = (([lane], [1],),)} () do", "if {mask = (([wave_M], [1],),)} () do"),
    "another lane arrives": ("if {mask = (([lane], [1],),)} () do", "if {mask = (([lane], [2],),)} () do"),
    "waves meet": ("store %sum", "barrier\nstore %sum"),
    "results are used behind": ("places = ([round + 1],)} : i32x1", "places = ([round + 1],)} : i32x1\n%twice = elementwise %sum, %sum {function = \"add\"} : f32x1"),
    "signals depend on values": ("signal_wait {index = [at_K//8%2]", "%at = cast %before : i32x1\nbind %at {symbol = \"next\"}\nsignal_wait {index = [next%2]"),
}  # fmt: skip


@pytest.mark.parametrize("name", STAYS)
def test_a_tile_whose_waves_need_more_of_each_other_stays(name: str) -> None:
    assert_stays(TILES.kernel(BODY.replace(*STAYS[name])))


@pytest.mark.parametrize(
    "change",
    [("wave wave_M 2", "wave wave_M 1"), ("together 24 240", "together 24 160"), ("producers 1", "producers 0")],
    ids=["one wave", "few registers", "no roles"],
)
def test_a_tile_that_gains_nothing_stays(change: tuple[str, str]) -> None:
    assert_stays(TILES.changed(change).kernel(BODY))


def test_tiles_of_as_many_steps_stay() -> None:
    assert_stays(TILES.kernel(BODY.replace(", goes_on = [1]", "")))


def assert_stays(kernel: Kernel) -> None:
    def change(ops: tuple[Op, ...]) -> tuple[Op, ...]:
        kept = [op for op in ops if op.name != "tiles_end"]
        return tuple(
            replace(op, region=replace(op.region, ops=change(op.region.ops))) if op.region else op for op in kept
        )

    assert body_text(LeaveOutWaves()(kernel, NVIDIA)) == body_text(replace(kernel, body=change(kernel.body)))


@pytest.mark.parametrize(
    ("name", "case"),
    [*(("attention_extend", case) for case in (3, 4, 5, 6, 7)), ("attention_ragged_causal", 1)],
)
def test_both_branches_have_the_same_signals(name: str, case: int) -> None:
    (subject,) = (subject for subject in subjects("sm_90") if subject.name == name)
    kernel = lower(subject.cases("sm_90")[case].spec, NVIDIA, after=LeaveOutWaves.name)
    branches = [op for op in kernel.walk() if op.name == "if" and any(one.name == "signal_wait" for one in op.walk())]
    missing, present = (op for op in branches if op.body.ops[-1].name == "barrier" or "lane" not in op.symbols)
    signals = [[one.attributes for one in op.walk() if one.name.startswith("signal_")] for op in (missing, present)]
    assert signals[0] == signals[1] and len(signals[0]) > 4
    assert not any(op.name.startswith(("mma", "store", "load")) for op in missing.walk())
    assert not any(op.name == "tiles_end" for op in kernel.walk())
