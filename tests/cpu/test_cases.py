"""A kernel with cases on the CPU: every call gets the right numbers from the kernel that is for its sizes."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.cli.command import SMALL
from wavespec.cache import CompileCache
from wavespec.generate import kernel_files
from wavespec.pipeline import compile
from wavespec.runtime import ArgumentError, Kernel
from wavespec.schema import loads

CASES = """\
  cpu:
    params: {BLOCK_M: 24}
    cases:
      - {when: [M == 1], params: {BLOCK_M: 12}}
      - when: [M <= 64, N % 16 == 0, K % 64 == 0]
        constraints:
          - {workgroup: N, tile: 64, axis: 0}
          - {workgroup: M, tile: 48, axis: 1}
          - {tiling: K, tile: 64}
          - {assume: N < 100}
"""


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Kernel:
    spec = loads(SMALL.replace("  cpu: {params: {BLOCK_M: 24}}\n", CASES), "small.wave.yaml")
    return compile(spec, cache=CompileCache(tmp_path_factory.mktemp("cache")))


def product(kernel: Kernel, m: int, n: int, k: int) -> int:
    """Checks one call against torch; returns the member that is for it."""
    a, b = (torch.randint(-8, 9, (rows, k)).half() for rows in (m, n))
    assert torch.equal(kernel(a, b), a.float() @ b.float().T)
    return kernel.artifact.member_for({"M": m, "N": n, "K": k})


@pytest.mark.parametrize(
    ("sizes", "member"),
    [((1, 17, 8), 0), ((1, 16, 64), 0), ((64, 32, 128), 1), ((3, 48, 64), 1), ((3, 47, 64), 2), ((65, 16, 64), 2)],
)
def test_every_case_computes_the_same(kernel: Kernel, sizes: tuple[int, int, int], member: int) -> None:
    assert product(kernel, *sizes) == member


def test_dims_promise_no_more_than_without_cases(kernel: Kernel) -> None:
    assert [dim.multiple_of for dim in kernel.artifact.dims] == [1, 1, 8]
    assert kernel.artifact.dynamic_dims == ("M", "N", "K")


def test_assumption_of_a_case_is_asked_of_its_calls_only(kernel: Kernel) -> None:
    assert product(kernel, 65, 128, 64) == 2
    with pytest.raises(ArgumentError, match="assumes N < 100"):
        product(kernel, 64, 128, 64)


def test_what_chose_a_case_is_not_checked_again(kernel: Kernel) -> None:
    row, few = (case.kernel for case in kernel.artifact.cases)
    assert [a.text for a in row.assumptions] == [] and [a.text for a in few.assumptions] == ["N < 100"]


def test_every_case_has_its_files() -> None:
    case = "  gfx942: {cases: [{when: [M <= 64], params: {BLOCK_M: 64}}]}\n"
    spec = loads(SMALL.replace("  cpu: {params: {BLOCK_M: 24}}\n", case))
    found = kernel_files(spec, ["gfx942"], "specs/small.wave.yaml", command="wavespec build", isa=True)
    names = {path.name for path in found if path.suffix in (".s", ".vmfb")}
    assert names == {f"gfx942{part}{suffix}" for part in ("", ".case0") for suffix in (".s", ".vmfb")}


def test_cache_keeps_each_case_by_what_it_is(tmp_path: Path) -> None:
    cache = CompileCache(tmp_path)
    for cases in (CASES, CASES.replace("M <= 64", "M <= 32")):
        compile(loads(SMALL.replace("  cpu: {params: {BLOCK_M: 24}}\n", cases)), cache=cache)
    # The row and all sizes are the same kernels in both, found with their code; of the others neither is known.
    assert (cache.hits, cache.misses) == (4, 8)
