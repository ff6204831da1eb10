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
    sizes = {"B": 1, "H": 2, "G": 1, "M": 70, "N": 170, "D": HEADS[number], "E": 24}
    sizes = {dim: size for dim, size in sizes.items() if dim in subject.spec.dims}
    kernel = lower(subject.cases("sm_90")[number].spec, HOPPER)
    inputs = subject.inputs(sizes)
    subject.check(inputs, simulated(subject, kernel, HOPPER, subject.complete(sizes), inputs), sizes)


def test_these_are_the_cases() -> None:
    assert len(WITH_PRODUCERS) == 18 and {number for _, number in WITH_PRODUCERS} == {0, 1, 2}


def test_results_leave_by_boxes_of_one_head() -> None:
    for subject, number in WITH_PRODUCERS[:3]:
        stores = [op for op in lower(subject.cases("sm_90")[number].spec, HOPPER).walk() if op.name == "bulk_store"]
        assert stores and {op["box"] for op in stores} == {(1, 1, 64, 64)}, subject.name
