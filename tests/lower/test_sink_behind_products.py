"""What a loop of products in tile registers does not need is made behind it."""

from __future__ import annotations

import pytest

from tests.lower.ir_text import Text
from wavespec.lower.sink_behind_products import SinkBehindProducts
from wavespec.targets.machine import machines

AMX, ZEN = (next(m for m in machines("cpu") if m.variant == f"x86_64_{name}") for name in ("amx", "v4_bf16"))
TEXT = Text("""
    thread kernel @k target cpu lanes 1
    symbol K in 0..4096 by 32
    symbol in_K in 0..4064 by 32
    plan "auto" stages 1 group 0
    memory @a.shared : bf16 (K: [2048]) shared
    memory @b.shared : bf16 (K: [2048]) shared
    memory @kept : f32 (element: [1024]) private
    memory @y : f32 (K: [K]) global output
""")


def order(inside: str = "", instruction: str = "amx_bf16_32x32x32") -> list[str]:
    """Numbers that are kept are scaled, and sums of products added."""
    text = TEXT.after(
        SinkBehindProducts(),
        AMX,
        f"""
        %zero = constant {{value = 0.0}} : f32x1024
        %old = load {{memory = "kept", offset = [0]}} : f32x1024
        %scaled = elementwise %old, %old {{function = "mul"}} : f32x1024
        %sums = for %zero {{induction = "in_K", lower = [0], step = [32], unroll = 1, upper = [K]}} : f32x1024 (%in : f32x1024) do
          %a = load {{memory = "a.shared", offset = [0]}} : bf16x1024
          %b = load {{memory = "b.shared", offset = [0]}} : bf16x1024
          {inside}
          %next = mma %a, %b, %in {{instruction = "{instruction}"}} : f32x1024
          yield %next
        end
        %new = elementwise %scaled, %sums {{function = "add"}} : f32x1024
        store %new {{memory = "kept", offset = [0]}}
    """,
    )
    words = ("%zero = ", "%old = ", "%scaled = ", "%sums = for", "%new = ")
    return [word.split()[0] for line in text.splitlines() for word in words if word in line]


def test_what_is_added_behind_the_loop_is_loaded_and_scaled_there() -> None:
    assert order() == ["%zero", "%sums", "%old", "%scaled", "%new"]


@pytest.mark.parametrize(
    "inside",
    [
        'store %in {memory = "kept", offset = [0]}',
        'accumulate %in {buffer = [0], mask = (), memory = "kept", offset = [0], onto = (), valid = [0]}',
        '%used = elementwise %scaled, %scaled {function = "add"} : f32x1024',
    ],
    ids=["the loop writes what is loaded", "the loop adds to it", "the loop uses it"],
)
def test_what_the_loop_has_to_do_with_stays_in_front(inside: str) -> None:
    assert order(inside)[:2] == ["%zero", "%old"]


def test_sums_in_vector_registers_change_nothing() -> None:
    assert order(instruction="fma_f32_12x32x1") == ["%zero", "%old", "%scaled", "%sums", "%new"]
    assert not SinkBehindProducts().applies_to(ZEN)
