"""Loads of neighbours that share bytes: which become one, and that elements are the same ones."""

from __future__ import annotations

from wavespec.emit.join_loads import join_loads
from wavespec.ir.kernel import Op
from wavespec.ir.parser import parse_kernel

KERNEL = """\
thread kernel @joined target cpu lanes 1
symbol K.i in 0.. by 1
symbol K in 0..4096 by 128
plan "auto" stages 1 group 0
grid [1]
memory @w : i4 (N: [64], K: [K]) global input
memory @y : i4 (N: [64], K: [K]) global output
{
LOADS
}
"""


def joined(*offsets: str, memory: str = "w", more: str = "", size: int = 8) -> list[Op]:
    lines = [
        f'  %w.{at} = load {{{more}memory = "{memory}", offset = [{offset}]}} : i4x{size}\n  store %w.{at} '
        f'{{memory = "y", offset = [{at * size}]}}'
        for at, offset in enumerate(offsets)
    ]
    kernel = join_loads(parse_kernel(KERNEL.replace("LOADS", "\n".join(lines))))
    return [op for op in kernel.body if op.name in ("load", "slice")]


def test_neighbours_of_a_row_are_one_load_in_whatever_order() -> None:
    whole, *parts = joined("K + 8", "K", "K + 24", "K + 16")
    assert whole.name == "load" and whole.result.vector.elements == 32 and str(whole["offset"]) == "K"
    assert [op["start"] for op in parts] == [8, 0, 24, 16]


def test_rows_are_joined_each_by_itself() -> None:
    names = [op.name for op in joined("0", "K", "16", "K + 16", size=16)]
    assert names.count("load") == 2 and names.count("slice") == 4


def test_what_is_no_neighbour_or_too_few_stays() -> None:
    assert [op.name for op in joined("0", "8", "16")] == ["load"] * 3
    assert [op.name for op in joined("0", "8", "16", "32")] == ["load"] * 4


def test_what_is_checked_or_written_stays() -> None:
    offsets = ("0", "8", "16", "24")
    assert [op.name for op in joined(*offsets, more="mask = (([0], [K],),), ")] == ["load"] * 4
    assert [op.name for op in joined(*offsets, memory="y")] == ["load"] * 4
