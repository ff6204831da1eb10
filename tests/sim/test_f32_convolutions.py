"""Convolutions of f32 with few results, as products of parts, whose steps workgroups share out: every such case, in the
simulator."""

from __future__ import annotations

import pytest

from tests.kernels import Sizes, subjects
from tests.sim.cases import lowered_case, run_case
from wavespec.ir.thread_ops import BULK_COPY
from wavespec.targets.machine import machines

(HOPPER,) = machines("sm_90")
(SUBJECT,) = (subject for subject in subjects("sm_90") if subject.name == "conv2d_nhwc_f32")
SIZES: tuple[tuple[int, Sizes], ...] = (
    (4, {"N": 2, "H": 7, "W": 11, "C": 64, "O": 72, "R": 3, "S": 3}),
    (2, {"N": 1, "H": 12, "W": 11, "C": 32, "O": 12, "R": 3, "S": 3}),
    (1, {"N": 1, "H": 5, "W": 7, "C": 32, "O": 68, "R": 2, "S": 2}),
)
"""Of each case the workgroups that share a tile, and sizes."""


@pytest.mark.parametrize("number", range(len(SIZES)))
def test_few_results_are_right(number: int) -> None:
    split, some = SIZES[number]
    sizes = SUBJECT.complete(some)
    case = SUBJECT.cases("sm_90")[number]
    assert SUBJECT.case("sm_90", sizes) == number
    kernels = lowered_case(case, HOPPER)
    assert kernels[-1].cluster == split
    assert any(op.is_(BULK_COPY) for op in kernels[-1].walk()), "windows are copied by the machine"
    inputs = SUBJECT.inputs(sizes)
    SUBJECT.check(inputs, run_case(SUBJECT, case, kernels, HOPPER, sizes, inputs), sizes)
