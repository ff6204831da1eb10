"""Pairs of tiles of `matmul_f8_blocks`, which are for sizes that no simulator has time for: exact at the edges of tiles."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

from tests.kernels import Subject
from tests.sim.cases import lowered_case, run_case
from tests.sim.test_any_case import FEW, on_few
from wavespec.ir.kernel import Kernel
from wavespec.schema.cases import TargetCase

SUBJECT = Subject("matmul_f8_blocks", "matmul_f8_blocks")
PAIRS = [
    number
    for number, case in enumerate(SUBJECT.cases("sm_90"))
    if case.spec.schedule and case.spec.schedule.workgroups and case.spec.schedule.workgroups.cluster == 2
]


@cache
def lowered(number: int) -> tuple[TargetCase, tuple[Kernel, ...]]:
    """A case, for any rows and any sums."""
    case = SUBJECT.cases("sm_90")[number]
    dims = {name: dim.model_copy(update={"min": 0} if name in "MK" else {}) for name, dim in case.spec.dims.items()}
    case = replace(case, spec=on_few(case.spec.model_copy(update={"dims": dims})))
    return case, lowered_case(case, FEW)


def test_pairs_lie_beside_each_other_and_below() -> None:
    assert len(PAIRS) == 2


@pytest.mark.parametrize("sizes", [(1, 8, 16), (130, 264, 160), (513, 136, 272), (257, 0, 128), (256, 384, 0)])
@pytest.mark.parametrize("number", PAIRS)
def test_pairs_are_exact_at_the_edges_of_tiles(number: int, sizes: tuple[int, int, int]) -> None:
    case, kernels = lowered(number)
    whole = SUBJECT.complete(dict(zip("MNK", sizes, strict=True)))
    inputs = SUBJECT.inputs(whole)
    SUBJECT.check(inputs, run_case(SUBJECT, case, kernels, FEW, whole, inputs), whole)
