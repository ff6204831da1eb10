"""Kernels of rows: every case whose rows a cluster shares, or that start anywhere, in the simulator."""

from __future__ import annotations

import pytest

from tests.kernels import Subject, subjects
from tests.sim.plan_variations import simulated
from wavespec.pipeline import lower
from wavespec.schema.cases import TargetCase, case_for_sizes
from wavespec.targets.machine import machines

(HOPPER,) = machines("sm_90")
ROWS = ("argmax", "cross_entropy", "layer_norm", "log_softmax", "rms_norm", "softmax", "sum_dim", "topk")
SUMS = [{"A": 2, "N": n, "B": b} for n, b in ((1037, 43), (1040, 264), (70, 3), (70, 16), (12, 264))]
CASES = [
    (subject, number)
    for subject in subjects("sm_90")
    if subject.file in ROWS
    for number, case in enumerate(subject.cases("sm_90"))
    if not case.before
]


def _is_split(subject: Subject, number: int) -> bool:
    return lower(subject.cases("sm_90")[number].spec, HOPPER, after="assign-tiles").cluster > 1


@pytest.mark.rare
@pytest.mark.parametrize(("subject", "number"), CASES, ids=lambda value: getattr(value, "name", str(value)))
def test_every_case_is_right_without_a_race(subject: Subject, number: int) -> None:
    case = subject.cases("sm_90")[number]
    sizes = {"M": 2, "N": 504}
    if subject.file == "sum_dim":
        sizes = next(one for one in SUMS if case_for_sizes((case, TargetCase((), case.spec)), one) is case)
    elif "op='%'" not in str(case.when):
        sizes["N"] -= 3
    kernel = lower(case.spec, HOPPER)
    inputs = subject.inputs(sizes)
    subject.check(inputs, simulated(subject, kernel, HOPPER, subject.complete(sizes), inputs), sizes)


def test_long_rows_are_shared() -> None:
    shared = {subject.file for subject, number in CASES if _is_split(subject, number)}
    assert shared == set(ROWS) - {"topk"}
