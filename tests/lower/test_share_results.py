"""Equal reads and equal arithmetic are done once, as long as nothing is written between."""

from __future__ import annotations

from tests.lower.gemms import AMD
from tests.lower.ir_text import Text, lines
from wavespec.ir.kernel import Op
from wavespec.lower.share_results import ShareResults

ROW = Text("""
    tile kernel @k target gfx942 lanes 64
    symbol K in 0..4096 by 1
    symbol lane in 0..63 by 1
    symbol at_K in 0..4064 by 32
    plan "auto" stages 1 group 1
    memory @x : f32 (K: [K]) global input
    memory @y : f32 (K: [K]) global output
""")
TILE = "tile<K: 32, f32, {K = lane; 1 by K 1 | }>"
WRITE = 'write %a {masked = ("K",), memory = "y", origin = (("K", [0],),)}\n'


def read(name: str, memory: str = "x", place: str = "0") -> str:
    return f'%{name} = read {{masked = ("K",), memory = "{memory}", origin = (("K", [{place}],),)}} : {TILE}\n'


def twice(name: str, of: str) -> str:
    return f'%{name} = elementwise %{of}, %{of} {{function = "add"}} : {TILE}\n'


def kept(body: str) -> list[str]:
    """What is left: names of values, and of operations that make none."""
    return [_name(op) for op in ShareResults()(ROW.kernel(body), AMD).walk()]


def _name(op: Op) -> str:
    return op.results[0].name if op.results else op.name


def test_second_read_and_what_is_computed_of_it_are_the_first() -> None:
    body = read("a") + twice("b", "a") + read("c") + twice("d", "c") + WRITE.replace("%a", "%d")
    expected = read("a") + twice("b", "a") + WRITE.replace("%a", "%b")
    assert ROW.after(ShareResults(), AMD, body) == lines(expected)


def test_other_places_and_memories_are_read() -> None:
    assert kept(read("a") + read("b", place="32") + read("c", "y")) == ["a", "b", "c"]


def test_what_was_written_between_is_read_again() -> None:
    assert kept(read("a") + read("b", "y") + WRITE + read("c", "y") + read("d")) == ["a", "b", "write", "c"]


def test_loops_use_what_is_in_front_of_them_and_keep_what_they_make() -> None:
    loop = f'%r = iterate %a {{dim = "K", extent = [K], induction = "at_K", step = [32], unroll = 1}} : {TILE} (%s : {TILE}) do\n'
    step = read("d", place="at_K")
    body = read("a") + loop + read("b") + step + read("e", place="at_K") + "yield %b\nend\n" + read("f", place="at_K")
    expected = read("a") + loop + "  " + step + "  yield %a\nend\n" + read("f", place="at_K")
    assert ROW.after(ShareResults(), AMD, body) == lines(expected)


def test_kernels_with_schedules_that_name_operations_stay() -> None:
    schedule = 'schedule {loop = "k", stages = 1, auto = "", nodes = (), clusters = (), buffers = 0, unroll = 0}'
    kernel = ROW.changed(("group 1", f"group 1\n    {schedule}")).kernel(read("a") + read("b"))
    assert ShareResults()(kernel, AMD) is kernel


def test_the_two_zeros_are_different_numbers() -> None:
    zeros = [
        f"%{name} = register {{value = {value}}} : {TILE}\n"
        for name, value in zip("abcd", (0.0, -0.0, 0.0, -0.0), strict=True)
    ]
    assert kept("".join(zeros)) == ["a", "b"]
