"""Several vectors joined across their elements are joined together on CPUs, and their results are a vector."""

from __future__ import annotations

import time

import pytest

from tests.lower.test_pairs_of_rows import AVX2, DISTANCES
from wavespec.ir.kernel import Kernel, Value
from wavespec.ir.nodes import replace
from wavespec.ir.thread_ops import ELEMENTWISE, REDUCE
from wavespec.lower.reduce_together import ReduceTogether
from wavespec.pipeline import lower
from wavespec.schema import loads
from wavespec.targets import machines

ROOTS = DISTANCES.replace("{write: steps.squares", "root: sqrt(steps.squares)\n  - {write: root")
WAVES = """constraints:
  - {workgroup: M, tile: 16, axis: 0}
  - {wave: M, tile: WAVE}
  - {workgroup: N, tile: 32, axis: 1}
  - {wave: N, tile: 1}
  - {tiling: K, tile: 8}
graph:"""


def reductions(kernel: Kernel) -> list[int]:
    return [op.result.vector.elements for op in kernel.walk() if op.is_(REDUCE)]


def roots(kernel: Kernel) -> list[int]:
    return [op.result.vector.elements for op in kernel.walk() if op.is_(ELEMENTWISE) and op["function"] == "sqrt"]


def of_waves(rows: int) -> Kernel:
    return lower(loads(ROOTS.replace("graph:", WAVES.replace("WAVE", str(rows)))), AVX2)


def test_what_eight_vectors_come_to_is_one_vector_and_so_is_what_is_made_of_it() -> None:
    kernel = lower(loads(ROOTS), AVX2)
    assert (reductions(kernel), roots(kernel)) == ([8], [8])


@pytest.mark.parametrize(("rows", "groups"), [(1, [1]), (2, [2]), (4, [4]), (8, [8]), (16, [8, 8])])
def test_results_are_taken_in_vectors_of_powers_of_two(rows: int, groups: list[int]) -> None:
    kernel = of_waves(rows)
    assert (reductions(kernel), roots(kernel)) == (groups, groups)


def test_lanes_that_have_no_vectors_join_what_they_have_one_by_one() -> None:
    (machine,) = machines("sm_90")
    assert set(reductions(lower(loads(ROOTS), machine))) <= {1}


def test_many_single_numbers_in_a_row_take_moments() -> None:
    """A scan of a few thousand elements took minutes: each number was compared with all before it."""
    kernel = lower(loads(ROOTS), AVX2)
    root = next(op for op in kernel.walk() if op.is_(ELEMENTWISE) and op["function"] == "sqrt")
    single = replace(root.result.vector, elements=1)
    numbers = tuple(
        replace(root, operands=(Value("x", single),), results=(Value(f"y.{number}", single),))
        for number in range(30_000)
    )
    reduction = next(op for op in kernel.walk() if op.is_(REDUCE))
    start = time.process_time()
    made = ReduceTogether().apply(replace(kernel, body=(reduction, *numbers)), AVX2)
    assert len(made.body) == len(numbers) + 1
    assert time.process_time() - start < 10
