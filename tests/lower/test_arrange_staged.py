"""Where the elements of a staged tile lie."""

from __future__ import annotations

import pytest

from tests.lower.gemms import NVIDIA
from wavespec.ir.dtype import DTYPES
from wavespec.ir.expr import const
from wavespec.ir.kernel import Memory
from wavespec.lower.arrange_staged import arrange_staged


def chunks_of(rows: range, *, across: bool, dtype: str = "bf16") -> set[int]:
    """Of 16 bytes, those of a line of 128 that the first element of these rows is in."""
    tile = Memory("x.shared", DTYPES[dtype], ("M", "N"), (const(64), const(64)), "shared", staged=True)
    arrangement = arrange_staged(tile, None, None, NVIDIA, None, across=across).arrangement
    assert arrangement is not None
    places = [arrangement.offset({"M": const(row), "N": const(0)}).value for row in rows]
    return {place * DTYPES[dtype].bytes % 128 // 16 for place in places}


@pytest.mark.parametrize("across", [False, True])
def test_neighbouring_rows_have_their_elements_in_different_banks(across: bool) -> None:
    assert len(chunks_of(range(8), across=across)) == 8


def test_so_have_rows_that_are_a_vector_apart_where_lanes_read_across() -> None:
    assert chunks_of(range(0, 64, 8), across=False) == {0}
    assert len(chunks_of(range(0, 64, 8), across=True)) == 8
