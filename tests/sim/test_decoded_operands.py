"""Operands that lanes decode on the way into the asynchronous matrix unit: every case with waves that only copy, in the
simulator, partial tiles included."""

from __future__ import annotations

import pytest

from tests.kernels import Subject, subjects
from tests.sim.plan_variations import simulated
from wavespec.pipeline import lower
from wavespec.targets.machine import machines

(HOPPER,) = machines("sm_90")
DECODING = [subject for subject in subjects("sm_90") if subject.name in ("linear_i4", "matmul_mxf4", "matmul_mxf8")]
WITH_PRODUCERS = [
    (subject, number)
    for subject in DECODING
    for number, case in enumerate(subject.cases("sm_90"))
    if lower(case.spec, HOPPER, after="assign-tiles").producers
]
ROWS = {"linear_i4": (1, 1, 9, 9, 40, 40, 70, 70, 130), "matmul_mxf4": (70,), "matmul_mxf8": (70,)}
"""Of each case the fewest rows, or a few more, that it is for."""


@pytest.mark.parametrize(("subject", "number"), WITH_PRODUCERS, ids=lambda value: getattr(value, "name", str(value)))
def test_every_case_is_right_without_a_race(subject: Subject, number: int) -> None:
    sizes = {"M": ROWS[subject.name][number], "N": 72, "K": 1024}
    kernel = lower(subject.cases("sm_90")[number].spec, HOPPER)
    inputs = subject.inputs(sizes)
    subject.check(inputs, simulated(subject, kernel, HOPPER, subject.complete(sizes), inputs), sizes)


def test_these_are_the_cases() -> None:
    assert [(subject.name, number) for subject, number in WITH_PRODUCERS] == [
        (name, number) for name, rows in ROWS.items() for number in range(len(rows))
    ]
