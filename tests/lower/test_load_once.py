"""Loads of one place of an input become one, where the matrix unit multiplies beside the lanes; others stay."""

from __future__ import annotations

from tests.lower.gemms import NVIDIA
from tests.lower.ir_text import Text
from wavespec.lower.load_once import LoadOnce

HEAD = Text(
    """
    thread kernel @products target sm_90 lanes 128
    symbol lane in 0..127 by 1
    plan "auto" stages 1 group 1
    grid [1]
    memory @s : f32 (M: [512]) global input
    memory @b : f32 (N: [8], K: [32]) shared [N/1: 8 by 32, K/1: 32 by 1; swizzle K 4 x 8 by N//1]
    memory @c : f32 (M: [512]) shared [M/1: 512 by 1]
    """
)
PRODUCT = """
    mma_fence
    %flying = mma_async %factor, %zero {b_buffer = [0], b_major = "k", b_memory = "b",
      b_offset = [0], instruction = "wgmma_m64n8k8_tf32"} : f32x4
    mma_commit
    %all = mma_wait %flying {pending = 0} : f32x4
    store %all {memory = "c", offset = [lane * 4]}"""


def scale(name: str, memory: str = "s", mask: str = "") -> str:
    mask = f", mask = {mask}" if mask else ""
    return f"""
    %{name} = load {{memory = "{memory}", offset = [lane % 32 * 4]{mask}}} : f32x4"""


def left(*loads: str, end: str = PRODUCT) -> list[str]:
    """Loads that are left, and what is made of them."""
    body = "    %zero = constant {value = 0.0} : f32x4" + "".join(loads)
    body += '\n    %factor = elementwise %first, %second {function = "mul"} : f32x4'
    made = HEAD.after(LoadOnce(), NVIDIA, body + end)
    lines = [line.split("{")[0].strip() for line in made.splitlines()]
    return [line for line in lines if "= load" in line or "= elementwise" in line]


def test_the_first_of_loads_of_one_place_serves_all() -> None:
    assert left(scale("first"), scale("second")) == ["%first = load", "%factor = elementwise %first, %first"]


def test_loads_that_are_not_checked_alike_stay() -> None:
    found = left(scale("first"), scale("second", mask="(([lane], [32],),)"))
    assert found == ["%first = load", "%second = load", "%factor = elementwise %first, %second"]


def test_loads_of_what_is_written_stay() -> None:
    found = left(scale("first", "c"), scale("second", "c"))
    assert found == ["%first = load", "%second = load", "%factor = elementwise %first, %second"]


def test_loads_without_a_product_stay() -> None:
    found = left(scale("first"), scale("second"), end='\n    store %factor {memory = "c", offset = [lane * 4]}')
    assert found == ["%first = load", "%second = load", "%factor = elementwise %first, %second"]
