"""Sums of a loop of products go to memory before the next loop of products begins, unless that would change something."""

from __future__ import annotations

from tests.lower.gemms import CPU
from tests.lower.ir_text import Text
from wavespec.lower.store_at_once import StoreAtOnce

TILE = Text("""
    thread kernel @k target cpu lanes 1
    symbol K in 0..4096 by 1
    symbol in_K in 0..4095 by 1
    symbol wave_M in 0..3 by 1
    plan "auto" stages 1 group 0
    memory @x : f32 (K: [K]) global input
    memory @y : f32 (K: [K]) global output
    memory @z : f32 (K: [K]) global output
""")


STORE = """\
accumulate %part {buffer = [0], mask = (([0], [K],),), memory = "MEMORY", offset = [wave_M*16], onto = (([0], [K],),), valid = [K]}
        """


def body(between: str = "", second: str = "z") -> str:
    """A tile of two sums, whose stores stand behind both."""
    loop = """
        %{0} = for %zero {{induction = "in_K", lower = [0], step = [1], unroll = 1, upper = [K]}} : f32x32 (%{0}.in : f32x32) do
          %{0}.a = load {{memory = "x", offset = [in_K]}} : f32x1
          %{0}.b = load {{memory = "x", offset = [in_K]}} : f32x32
          %{0}.next = mma %{0}.a, %{0}.b, %{0}.in {{instruction = "fma_f32_12x32x1"}} : f32x32
          yield %{0}.next
        end
    """
    return f"""
      %zero = constant {{value = 0.0}} : f32x32
      for {{induction = "wave_M", lower = [0], step = [1], unroll = 1, upper = [4]}} () do
        {loop.format("one")}
        {between}
        {loop.format("two")}
        %part = slice %one {{size = 16, start = 0}} : f32x16
        %rest = slice %two {{size = 16, start = 0}} : f32x16
        accumulate %part {{buffer = [0], mask = (([0], [K],),), memory = "y", offset = [wave_M*16], onto = (([0], [K],),), valid = [K]}}
        accumulate %rest {{buffer = [0], mask = (([0], [K],),), memory = "{second}", offset = [wave_M*16 + 64], onto = (([0], [K],),), valid = [K]}}
        yield
      end
    """


def order(between: str = "", second: str = "z") -> list[str]:
    """Loops of products and what is added to memory, as they follow each other."""
    text = TILE.after(StoreAtOnce(), CPU, body(between, second))
    words = ("%one = for", "%two = for", "accumulate %part", "accumulate %rest")
    return [word for line in text.splitlines() for word in words if word in line]


def test_sums_are_stored_in_front_of_the_next_products() -> None:
    assert order() == ["%one = for", "accumulate %part", "%two = for", "accumulate %rest"]


def test_sums_of_one_memory_keep_their_order() -> None:
    assert order(second="y") == ["%one = for", "accumulate %part", "%two = for", "accumulate %rest"]


def test_sums_stay_behind_what_reads_their_memory() -> None:
    read = '%seen = load {memory = "y", offset = [0]} : f32x16\n        store %seen {memory = "z", offset = [0]}'
    assert order(read) == ["%one = for", "%two = for", "accumulate %part", "accumulate %rest"]


def test_sums_that_two_memories_get_are_cut_out_once() -> None:
    again = body().replace("accumulate %rest", STORE.replace("MEMORY", "z") + "accumulate %rest")
    text = TILE.after(StoreAtOnce(), CPU, again)
    assert text.count("%part = slice") == 1
    assert text.index("%part = slice") < text.rindex("accumulate %part") < text.index("%two = for")
