"""Few sums of very many numbers: a kernel before has parts of them, on this CPU."""

from __future__ import annotations

from functools import cache

import pytest
import torch

from tests.cpu.kernels_of_cases import KernelsOfCases
from tests.schema.test_parted_loops import spec_of
from tests.sim.test_parts_of_scans import spec_of as nucleus
from wavespec.pipeline import best_variant
from wavespec.schema import KernelSpec, loads
from wavespec.schema.cases import case_for_sizes, cases_for_target
from wavespec.sim.reference import reference

ROWS = """\
apiVersion: wavespec/v1
kind: Kernel
name: joined
dims: {M: {}, N: {min: 1}}
tensors: {x: {shape: [M, N], dtype: f32}, y: {shape: [M], dtype: f32, role: output}}
graph:
  - none: {register: [M], dtype: f32, value: START}
  - steps:
      iterate: N
      carry: {total: none}
      body:
        - part: {read: x}
        - total: {WORD: part, dim: N, init: total}
  - {write: steps.total, to: y}
"""


def rows(word: str) -> KernelSpec:
    return loads(ROWS.replace("WORD", word).replace("START", "0" if word == "sum" else "-.inf"))


@cache
def kernel(word: str) -> KernelsOfCases:
    return KernelsOfCases(rows(word), best_variant("cpu"))


@pytest.mark.parametrize("columns", [524_288, 524_289, 525_311, 1_000_003])
@pytest.mark.parametrize("word", ["sum", "max"])
def test_long_rows_are_joined_part_by_part(word: str, columns: int) -> None:
    x = torch.randint(-8, 8, (2, columns)).float()
    x[:, -1] = 8  # behind the last whole tile
    wanted = x.sum(1) if word == "sum" else x.amax(1)
    torch.testing.assert_close(kernel(word)(x), wanted, atol=0, rtol=0)


@pytest.mark.parametrize("columns", [4096, 4097, 4159, 4160, 6000])
def test_parts_behind_the_last_element_are_empty(columns: int) -> None:
    """Of 4097 elements, 21 parts have 192, one has 65, and ten have none."""
    x, weight = torch.randint(-8, 8, (5, columns)).float(), torch.ones(5)
    sums = KernelsOfCases(spec_of(), best_variant("cpu"))
    torch.testing.assert_close(sums(x, weight), x.sum(1), atol=0, rtol=0)


def test_many_rows_and_short_ones_have_no_parts() -> None:
    cases = cases_for_target(rows("sum"), "cpu")
    for sizes, parts in (((1, 10**6), True), ((4, 10**6), True), ((5, 10**6), False), ((1, 10**5), False)):
        assert bool(case_for_sizes(cases, dict(zip("MN", sizes, strict=True))).before) == parts, sizes


@pytest.mark.parametrize("columns", [1, 64, 257, 1000])
def test_steps_write_the_results_that_they_find(columns: int) -> None:
    """The walk over parts writes one, the kernel behind it the others."""
    spec, x = nucleus("cpu"), torch.randint(-3, 5, (3, columns)).float()
    found = KernelsOfCases(spec, best_variant("cpu"))(x)
    for one, right in zip(found, reference(spec, x), strict=True):
        torch.testing.assert_close(one.double(), right.double(), atol=0, rtol=0)
