"""What a workgroup that stays loaded once waits in 16 bits, and every tile converts it anew."""

from __future__ import annotations

from tests.lower.gemms import NVIDIA
from tests.lower.ir_text import Text, lines
from wavespec.lower.keep_narrow import KeepNarrow

STAYING = Text("""
    thread kernel @k target sm_90 lanes 32
    symbol M in 0..4096 by 1
    symbol lane in 0..31 by 1
    symbol workgroup in 0..131 by 1
    symbol round in 0..4096 by 1
    plan "auto" stages 1 group 1 persistent
    grid [132]
    memory @weight : bf16 (N: [64]) global input
    memory @y : f32 (M: [M], N: [64]) global output
""")
BODY = """
    %weight = load {memory = "weight", offset = [lane*2]} : bf16x2
    %factor = cast %weight : f32x2
    for {induction = "round", lower = [0], step = [1], unroll = 1, upper = [M]} () do
      store %factor {memory = "y", offset = [round*64 + lane*2]}
      yield
    end
"""


def test_weights_are_converted_where_a_tile_uses_them() -> None:
    assert STAYING.after(KeepNarrow(), NVIDIA, BODY) == lines("""
        %weight = load {memory = "weight", offset = [lane*2]} : bf16x2
        for {induction = "round", lower = [0], step = [1], unroll = 1, upper = [M]} () do
          %weight.1 = opaque %weight : bf16x2
          %factor.1 = cast %weight.1 : f32x2
          store %factor.1 {memory = "y", offset = [lane*2 + round*64]}
          yield
        end
    """)


def test_parts_of_what_is_converted_go_with_it() -> None:
    parts = BODY.replace(
        "= cast %weight : f32x2", "= cast %weight : f32x2\n    %one = slice %factor {size = 1, start = 0} : f32x1"
    )
    text = STAYING.after(KeepNarrow(), NVIDIA, parts.replace("store %factor", "store %one"))
    made = [line.split()[2] for line in text.splitlines() if line.strip().startswith("%")]
    assert made == ["load", "opaque", "cast", "slice"]


def test_what_is_used_elsewhere_too_stays_in_front() -> None:
    kernel = STAYING.kernel(BODY + '    store %factor {memory = "y", offset = [lane*2]}\n')
    assert KeepNarrow()(kernel, NVIDIA) is kernel


def test_numbers_of_32_bits_gain_nothing() -> None:
    kernel = STAYING.changed(("@weight : bf16", "@weight : f32")).kernel(
        BODY.replace(": bf16x2", ": f32x2").replace(
            "cast %weight : f32x2", "slice %weight {size = 1, start = 0} : f32x1"
        )
    )
    assert KeepNarrow()(kernel, NVIDIA) is kernel


def test_workgroups_of_one_tile_convert_once() -> None:
    kernel = STAYING.changed((" persistent", "")).kernel(BODY)
    assert KeepNarrow()(kernel, NVIDIA) is kernel
