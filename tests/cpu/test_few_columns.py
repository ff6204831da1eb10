"""Sums across rows of few columns, and of short rows within a loop over others: steps have several rows, on this CPU."""

from __future__ import annotations

from functools import cache

import pytest
import torch

from tests.cpu.kernels_of_cases import KernelsOfCases
from wavespec.pipeline import best_variant
from wavespec.schema import KernelSpec, loads
from wavespec.schema.cases import case_for_sizes, cases_for_target
from wavespec.schema.language.constraints import Hardware, Tiling

HEAD = "apiVersion: wavespec/v1\nkind: Kernel\nname: total\n"
ACROSS = """
dims: {A: {}, N: {}, B: {}}
tensors: {x: {shape: [A, N, B], dtype: TYPE}, y: {shape: [A, B], dtype: f32, role: output}}
graph:
  - none: {register: [A, B], dtype: f32, value: 0}
  - steps:
      iterate: N
      carry: {total: none}
      body:
        - part: {read: x}
        - wide: f32(part)
        - total: {sum: wide, dim: N, init: total}
  - {write: steps.total, to: y}
"""
WITHIN = """
dims: {M: {}, N: {}}
tensors: {x: {shape: [M, N], dtype: TYPE}, y: {shape: [], dtype: f32, role: output}}
graph:
  - none: {register: [], dtype: f32, value: 0}
  - rows:
      iterate: M
      carry: {total: none}
      body:
        - columns:
            iterate: N
            carry: {total: total}
            body:
              - part: {read: x}
              - wide: f32(part)
              - total: {sum: wide, dim: [M, N], init: total}
        - total: columns.total
  - {write: rows.total, to: y}
"""


def spec(text: str, dtype: str) -> KernelSpec:
    return loads(HEAD + text.replace("TYPE", dtype))


@cache
def kernel(text: str, dtype: str) -> KernelsOfCases:
    return KernelsOfCases(spec(text, dtype), best_variant("cpu"))


def numbers(shape: tuple[int, ...], dtype: str) -> torch.Tensor:
    """Whole ones, whose sums are exact."""
    return torch.randint(-8, 9, shape).to(torch.float32 if dtype == "f32" else torch.bfloat16)


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
@pytest.mark.parametrize("columns", [1, 2, 3, 4, 5, 8, 16, 17])
@pytest.mark.parametrize(("batch", "rows"), [(1, 5000), (3, 131), (70, 9), (2, 0), (2, 64)])
def test_sums_across_few_columns_are_right(batch: int, rows: int, columns: int, dtype: str) -> None:
    x = numbers((batch, rows, columns), dtype)
    torch.testing.assert_close(kernel(ACROSS, dtype)(x), x.float().sum(1), atol=0, rtol=0)


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
@pytest.mark.parametrize("shape", [(1000, 8), (77, 16), (50, 50), (33, 128), (10, 300), (0, 8), (5, 0), (1, 1)])
def test_sums_of_all_of_short_rows_are_right(shape: tuple[int, int], dtype: str) -> None:
    x = numbers(shape, dtype)
    torch.testing.assert_close(kernel(WITHIN, dtype)(x), x.float().sum(), atol=0, rtol=0)


def test_vectors_of_few_columns_have_several_steps() -> None:
    cases = cases_for_target(spec(ACROSS, "f32"), "cpu")
    for columns, together in ((1, False), (2, True), (3, True), (4, True), (8, True), (64, False)):
        case = case_for_sizes(cases, {"A": 1, "N": 10**6, "B": columns})
        asked = [one for one in case.spec.constraints if isinstance(one, Hardware) and one.settings.vector]
        assert bool(asked) == together, columns


def test_steps_of_short_rows_have_several_of_the_loop_around() -> None:
    cases = cases_for_target(spec(WITHIN, "f32"), "cpu")
    for width, several in ((8, True), (64, True), (1000, False)):
        case = case_for_sizes(cases, {"M": 1000, "N": width})
        tiles = {one.dim: str(one.tile) for one in case.spec.constraints if isinstance(one, Tiling)}
        assert (tiles["M"] != "1") == several, width
