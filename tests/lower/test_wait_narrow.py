"""Elements that wait for other lanes wait in 16 bits, where lanes have no registers for more."""

from __future__ import annotations

import pytest

from tests.lower.gemms import NVIDIA
from tests.lower.ir_text import Text, body_text
from wavespec.ir.kernel import Kernel
from wavespec.lower.wait_narrow import WaitNarrow
from wavespec.targets.machine import Machine

ROW = Text("""
    thread kernel @k target sm_90 lanes 32
    symbol M in 0..4096 by 1
    symbol lane in 0..31 by 1
    symbol wg0 in 0..4095 by 1
    plan "auto" stages 1 group 1
    grid [M]
    memory @x : bf16 (M: [M], N: [256]) global input
    memory @y : f32 (M: [M], N: [256]) global output
    memory @parts : f32 (M: [256]) shared
""")
LOAD = """
    %a = load {memory = "x", offset = [wg0*256 + lane*8]} : bf16x8
    %w = cast %a : f32x8
    %s = reduce %w {function = "add"} : f32x1
    store %s {memory = "parts", offset = [lane]}
    barrier
"""
BEHIND = """
    %t = load {memory = "parts", offset = [lane]} : f32x1
    %b = broadcast %t : f32x8
    %r = elementwise %w, %b {function = "sub"} : f32x8
    %q = elementwise %w, %r {function = "mul"} : f32x8
    store %q {memory = "y", offset = [wg0*256 + lane*8]}
"""


@pytest.fixture
def crowded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lanes with seven registers beside those for places."""

    def registers_of_lane(kernel: Kernel, machine: Machine) -> int:
        return 15

    monkeypatch.setattr("wavespec.lower.wait_narrow.registers_of_lane", registers_of_lane)


@pytest.mark.usefixtures("crowded")
def test_elements_are_converted_again_behind_a_barrier() -> None:
    changed = BEHIND.replace("%w,", "%w.1,").replace(
        "    %r =", "    %a.1 = opaque %a : bf16x8\n    %w.1 = cast %a.1 : f32x8\n    %r ="
    )
    assert ROW.after(WaitNarrow(), NVIDIA, LOAD + BEHIND) == body_text(ROW.kernel(LOAD + changed))


@pytest.mark.usefixtures("crowded")
def test_each_meeting_has_a_conversion_of_its_own() -> None:
    again = BEHIND.replace("%t", "%t2").replace("%b", "%b2").replace("%r", "%r2").replace("%q", "%q2")
    text = ROW.after(WaitNarrow(), NVIDIA, LOAD + BEHIND + "    barrier\n" + again)
    assert text.count("= opaque") == 2 and text.count("= cast") == 3


@pytest.mark.usefixtures("crowded")
def test_what_one_instruction_makes_of_them_is_made_again() -> None:
    """What rows of f16 are less than their largest element: its powers need it in front of the sum, results behind."""
    less = LOAD.replace(
        "    %s = reduce %w",
        """    %l = reduce %w {function = "maximum"} : f32x1
    %m = broadcast %l : f32x8
    %d = elementwise %w, %m {function = "sub"} : f32x8
    %s = reduce %d""",
    )
    text = ROW.after(WaitNarrow(), NVIDIA, less + BEHIND.replace("%w,", "%d,"))
    again = text[text.index("barrier") :]
    assert "%d.1 = elementwise %w.1, %m" in again and "%w.1 = cast %a.1" in again
    assert again.count("= opaque") == 1 and "%d," not in again


@pytest.mark.usefixtures("crowded")
def test_what_nobody_needs_behind_it_is_converted_once() -> None:
    kernel = ROW.kernel(LOAD + BEHIND.replace("%w,", "%b,"))
    assert WaitNarrow()(kernel, NVIDIA) is kernel


@pytest.mark.usefixtures("crowded")
def test_numbers_of_32_bits_wait_as_they_are() -> None:
    wide = ROW.changed(("@x : bf16", "@x : f32"))
    kernel = wide.kernel(
        (LOAD + BEHIND).replace("%w = cast %a", '%w = elementwise %a, %a {function = "add"}').replace("bf16", "f32")
    )
    assert WaitNarrow()(kernel, NVIDIA) is kernel


def test_lanes_with_room_convert_once() -> None:
    kernel = ROW.kernel(LOAD + BEHIND)
    assert WaitNarrow()(kernel, NVIDIA) is kernel
