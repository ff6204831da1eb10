"""Integers that are added to elements at computed places: one workgroup needs no indivisible steps, on this CPU."""

from __future__ import annotations

from functools import cache

import pytest
import torch

from tests.cpu.kernels_of_cases import KernelsOfCases
from wavespec.pipeline import best_variant, lower
from wavespec.schema import KernelSpec, loads
from wavespec.schema.cases import case_for_sizes, cases_for_target

COUNTS = """\
apiVersion: wavespec/v1
kind: Kernel
name: count
dims: {N: {}, B: BINS}
tensors:
  counts: {shape: [B], dtype: i32, role: inout}
  x: {shape: [N], dtype: i32}
graph:
  - number: {read: x}
  - one: {register: [N], dtype: i32, value: 1}
  - {write: one, to: counts, at: {B: number}, combine: add}
"""


def spec(bins: str) -> KernelSpec:
    return loads(COUNTS.replace("BINS", bins))


@cache
def kernel(bins: str) -> KernelsOfCases:
    return KernelsOfCases(spec(bins), best_variant("cpu"))


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("count", [0, 1, 31, 32, 33, 5000, (1 << 20) + 77])
@pytest.mark.parametrize("bins", ["{}", "{value: 100}"])
def test_what_is_outside_is_not_counted(bins: str, count: int, threads: int) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    counts = torch.randint(0, 9, (100,), dtype=torch.int32)
    x = torch.randint(-3, 104, (count,), dtype=torch.int32)
    x[:2] = torch.tensor([-(2**31), 2**31 - 1])[: min(count, 2)]
    wanted = counts + torch.bincount(x[(x >= 0) & (x < 100)].long(), minlength=100)
    kernel(bins)(counts, x)
    torch.set_num_threads(before)
    assert torch.equal(counts, wanted.int())


def test_one_workgroup_has_sixty_four_million_numbers() -> None:
    """More of them are shared out, and combined in indivisible steps."""
    cases = cases_for_target(spec("{}"), "cpu")
    few, many = (case_for_sizes(cases, {"N": number, "B": 100}) for number in (1 << 26, (1 << 26) + 1))
    assert few is not many
    alone, shared_out = (lower(case.kernels[-1], best_variant("cpu")).grid for case in (few, many))
    assert all(extent.high == 1 for extent in alone)
    assert not all(extent.high == 1 for extent in shared_out)
