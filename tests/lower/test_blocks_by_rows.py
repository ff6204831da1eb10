"""Operations on blocks of a private memory, row by row."""

from __future__ import annotations

import itertools

import pytest

from wavespec.ir.kernel import Op
from wavespec.ir.parser import parse_kernel
from wavespec.ir.printer import print_kernel
from wavespec.lower.blocks_by_rows import blocks_by_rows

HEAD = """\
thread kernel @block target cpu lanes 1
plan "auto" stages 1 group 0
grid [1]
memory @sums : f32 (element: [64]) private
{
"""
BLOCK = """\
  %block = load {memory = "sums", offset = [32]} : f32x32
  %a = slice %block {size = 8, start = 0} : f32x8
  %b = slice %block {size = 8, start = 8} : f32x8
  %c = slice %block {size = 8, start = 16} : f32x8
  %d = slice %block {size = 8, start = 24} : f32x8
  %new = pack %d, %c, %b, %a : f32x32
  store %new {memory = "sums", offset = [32]}
"""


def by_rows(text: str, columns: int) -> tuple[Op, ...]:
    numbers = itertools.count()
    ops = parse_kernel(f"{HEAD}{text}}}\n").body
    return blocks_by_rows(ops, columns, {"sums"}, lambda hint: f"{hint}.{next(numbers)}")


def test_slices_are_loaded_and_parts_stored_by_rows() -> None:
    assert [(op.name, str(op["offset"]), op.result.vector.elements) for op in by_rows(BLOCK, 16)[:4]] == [
        ("load", "32", 8), ("load", "40", 8), ("load", "48", 8), ("load", "56", 8),
    ]  # fmt: skip
    _, first, _, second = by_rows(BLOCK, 16)[4:]
    assert (str(first["offset"]), str(second["offset"])) == ("32", "48")
    assert first.operands[0].vector.elements == second.operands[0].vector.elements == 16


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("store %new {", 'store %block {memory = "sums", offset = [0]}\n  store %new {'),
        ('"sums", offset = [32]} : f32x32', '"sums", offset = [32], valid = [5]} : f32x32'),
    ],
)
def test_blocks_that_are_used_whole_or_are_not_all_there_stay(before: str, after: str) -> None:
    text = BLOCK.replace(before, after)
    assert text != BLOCK and by_rows(text, 16)[0].result.vector.elements == 32


def test_blocks_that_are_stored_to_before_they_are_taken_apart_stay() -> None:
    early = BLOCK.replace("  %d = slice", '  store %c {memory = "sums", offset = [56]}\n  %d = slice')
    assert early != BLOCK and by_rows(early, 16)[0].result.vector.elements == 32


def test_parts_across_rows_stay_together() -> None:
    assert by_rows(BLOCK, 12)[-1].operands[0].vector.elements == 32


def test_the_rest_stays() -> None:
    kernel = parse_kernel(f"{HEAD}{BLOCK}}}\n")
    assert "f32x32" in print_kernel(kernel)
    assert blocks_by_rows(kernel.body, 16, set(), str) == kernel.body
