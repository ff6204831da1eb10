"""What becomes of one row of sums, where all rows become the same."""

from __future__ import annotations

import pytest

from wavespec.ir.expr import less
from wavespec.ir.parser import parse_kernel
from wavespec.lower.row_of_sums import RowOfSums, row_of_sums

HEAD = """\
thread kernel @rows target cpu lanes 1
symbol M in 1..64 by 1
plan "auto" stages 1 group 0
grid [1]
memory @held : f32 (element: [64]) private
memory @y : f32 (element: [64]) global output
{
  %sums = constant {value = 0.0} : f32x48
"""


def of_rows(*rows: str) -> RowOfSums | None:
    sums, *ops = parse_kernel(f"{HEAD}{''.join(rows)}}}\n").body
    made = {value.name: op for op in ops for value in op.results}
    return row_of_sums(ops, sums.result, len(rows), 16, made, less)


def masked(row: int, mask: str) -> str:
    return f"""\
  %s{row} = slice %sums {{size = 16, start = {16 * row}}} : f32x16
  store %s{row} {{mask = {mask}, memory = "y", offset = [{16 * row}]}}
"""


@pytest.mark.parametrize(("size", "is_row"), [("M", True), ("M - 3", False)])
def test_a_first_row_without_a_check_is_like_others_where_it_is_always_there(size: str, is_row: bool) -> None:
    rows = [masked(0, "()"), *(masked(row, f"(([{row}], [{size}],),)") for row in (1, 2))]
    assert (of_rows(*rows) is not None) == is_row


def held(row: int, *, stored_first: bool) -> str:
    store = f'  store %s{row} {{memory = "held", offset = [{16 * row}]}}\n'
    load = f'  %h{row} = load {{memory = "held", offset = [{16 * row}]}} : f32x16\n'
    return f"""\
  %s{row} = slice %sums {{size = 16, start = {16 * row}}} : f32x16
{store + load if stored_first else load + store}\
  store %h{row} {{memory = "y", offset = [{16 * row}]}}
"""


@pytest.mark.parametrize("stored_first", [False, True])
def test_what_a_memory_had_is_loaded_before_a_row_is_stored_there(stored_first: bool) -> None:
    found = of_rows(*(held(row, stored_first=stored_first) for row in range(3)))
    assert (found is None) == stored_first
