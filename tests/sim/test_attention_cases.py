"""Attention by the asynchronous matrix unit: every case with waves that only copy, in the simulator, partial tiles included."""

from __future__ import annotations

import pytest

from tests.kernels import Subject, subjects
from tests.sim.plan_variations import simulated
from wavespec.pipeline import lower
from wavespec.targets.machine import machines

(HOPPER,) = machines("sm_90")
ATTENTIONS = [subject for subject in subjects("sm_90") if subject.name.startswith("attention")]
WITH_PRODUCERS = [
    (subject, number)
    for subject in ATTENTIONS
    for number, case in enumerate(subject.cases("sm_90"))
    if lower(case.spec, HOPPER, after="assign-tiles").producers
]
HEADS = (16, 72, 136)  # one for each case, by the elements of a head


@pytest.mark.parametrize(("subject", "number"), WITH_PRODUCERS, ids=lambda value: getattr(value, "name", str(value)))
def test_every_case_is_right_without_a_race(subject: Subject, number: int) -> None:
    known = {"B": 1, "H": 2, "G": 1, "M": 70, "N": 170, "D": HEADS[number], "E": 24, "T": 150, "S": 270, "L": 3}
    derived = {name for name, dim in subject.spec.dims.items() if dim.equals is not None}
    sizes = {dim: size for dim, size in known.items() if dim in subject.spec.dims.keys() - derived}
    kernel = lower(subject.cases("sm_90")[number].spec, HOPPER)
    inputs = subject.inputs(sizes)
    subject.check(inputs, simulated(subject, kernel, HOPPER, subject.complete(sizes), inputs), sizes)


def test_these_are_the_cases() -> None:
    assert len(WITH_PRODUCERS) == 24 and {number for _, number in WITH_PRODUCERS} == {0, 1, 2}
