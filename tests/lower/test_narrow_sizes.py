"""Sizes are as large as they are where a workgroup runs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.lower.gemms import NVIDIA
from tests.lower.ir_text import Text
from wavespec.ir.printer import print_kernel
from wavespec.lower.narrow_sizes import NarrowSizes

HEADS = Text("""
    tile kernel @heads target sm_90 lanes 1
    symbol H in 0..64 by 1
    symbol M in 0..4096 by 8
    symbol N in 0..4096 by 1
    split workgroup H 1 0
    split workgroup M 64 1
    split loop N 64 0
    plan "auto" stages 1 group 0
    memory @x : f32 (H: [H], M: [M], N: [N]) global input
    memory @y : f32 (H: [H], M: [M]) global output
    memory @z : f32 (M: [M]) global output
""")
SUMS = """
    %x = read {at = (("N", [N//H]),), memory = "x"} : tile<H, M, f32>
    write %x {memory = "y"}
"""
WITHOUT_A_HEAD = """
    %none = register {value = 0.0} : tile<M, f32>
    write %none {memory = "z"}
"""


def symbols(body: str) -> list[str]:
    text = print_kernel(NarrowSizes()(HEADS.kernel(body), NVIDIA))
    return [line.strip() for line in text.splitlines() if line.startswith("symbol")]


def test_a_workgroup_runs_where_no_dim_of_the_grid_is_empty() -> None:
    assert symbols(SUMS) == ["symbol H in 1..64 by 1", "symbol M in 8..4096 by 8", "symbol N in 0..4096 by 1"]


def test_what_is_written_without_a_dim_has_a_workgroup_where_it_is_empty() -> None:
    assert symbols(SUMS + WITHOUT_A_HEAD)[0] == "symbol H in 0..64 by 1"


@pytest.mark.parametrize("changes", [("M in 0..4096 by 8", "M in 0..64 by 8"), ("H in 0..64", "H in 0..1")], ids=str)
def test_a_dim_of_one_tile_at_most_stays(changes: tuple[str, str]) -> None:
    """Its size alone says that there is no workgroup."""
    assert print_kernel(NarrowSizes()(HEADS.changed(changes).kernel(SUMS), NVIDIA)).count(f"symbol {changes[1]}") == 1


def test_one_workgroup_that_stays_meets_empty_dims() -> None:
    kernel = HEADS.kernel(SUMS)
    kernel = replace(kernel, distribution=replace(kernel.distribution, persistent=True, workers=1))
    assert NarrowSizes()(kernel, NVIDIA) is kernel


def test_places_are_divided_by_sizes_without_a_guard() -> None:
    kernel = HEADS.kernel(SUMS)
    (before, _), (after, _) = kernel.body, NarrowSizes()(kernel, NVIDIA).body
    assert [op["at"][0][1].args[1].low for op in (before, after)] == [0, 1]


def test_known_sizes_stay() -> None:
    kernel = HEADS.changed(("H in 0..64", "H in 1..64"), ("M in 0..4096", "M in 8..4096")).kernel(SUMS)
    assert NarrowSizes()(kernel, NVIDIA) is kernel
