"""Equal reads and equal arithmetic are done once, as long as nothing is written between."""

from __future__ import annotations

from wavespec.ir.parser import parse_kernel
from wavespec.lower.share_results import ShareResults
from wavespec.targets import machines

HEAD = """tile kernel @k target gfx942 lanes 64
symbol K in 0..4096 by 1
symbol at_K in 0..4064 by 32
plan "auto" stages 1 group 1
memory @x : f32 (K: [K]) global input
memory @y : f32 (K: [K]) global output
{
"""
READ = '%{name} = read {{masked = ("K",), memory = "{memory}", origin = (("K", [{place}],),)}} : tile<K: 32, f32>\n'


def read(name: str, memory: str = "x", place: str = "0") -> str:
    return "  " + READ.format(name=name, memory=memory, place=place)


def shared(*lines: str) -> list[str]:
    text = HEAD + "".join(line if line.endswith("\n") else f"  {line}\n" for line in lines) + "}\n"
    kernel = ShareResults()(parse_kernel(text), machines("gfx942")[0])
    return [op.results[0].name if op.results else op.name for op in kernel.walk()]


def test_second_read_and_what_is_computed_of_it_are_the_first() -> None:
    double = '%{0} = elementwise %{1}, %{1} {{function = "add"}} : tile<K: 32, f32>'
    total = 'write %d {masked = ("K",), memory = "y", origin = (("K", [0],),)}'
    assert shared(read("a"), double.format("b", "a"), read("c"), double.format("d", "c"), total) == ["a", "b", "write"]


def test_other_places_and_memories_are_read() -> None:
    assert shared(read("a"), read("b", place="32"), read("c", "y")) == ["a", "b", "c"]


def test_what_was_written_between_is_read_again() -> None:
    write = 'write %a {masked = ("K",), memory = "y", origin = (("K", [0],),)}'
    assert shared(read("a"), read("b", "y"), write, read("c", "y"), read("d")) == ["a", "b", "write", "c"]


def test_loops_use_what_is_in_front_of_them_and_keep_what_they_make() -> None:
    loop = (
        '%r = iterate %a {dim = "K", extent = [K], induction = "at_K", step = [32], unroll = 1} : tile<K: 32, f32> '
        "(%s : tile<K: 32, f32>) do"
    )
    step = read("d", place="at_K")
    lines = shared(
        read("a"), loop, read("b"), step, read("e", place="at_K"), "  yield %b", "end", read("f", place="at_K")
    )
    assert lines == ["a", "r", "d", "f"]
