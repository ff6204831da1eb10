"""Kernels of rows: every case whose rows a cluster shares, or that start anywhere, in the simulator."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache

import pytest

from tests.kernels import SPECS, Subject, subjects
from tests.sim.plan_variations import simulated
from wavespec.lower.workgroups_together import resident_of
from wavespec.pipeline import lower
from wavespec.schema.cases import TargetCase, case_for_sizes, cases_for_target
from wavespec.schema.families.load_family import loads_family
from wavespec.targets.machine import Machine, machines

(HOPPER,) = machines("sm_90")
ROWS = ("argmax", "cross_entropy", "layer_norm", "log_softmax", "rms_norm", "softmax", "sum_dim", "topk")
SUMS = [
    {"A": a, "N": n, "B": b}
    for a, n, b in (
        *((2, 120, 1), (2, 1032, 1), (2, 4104, 1), (2, 16392, 1), (2, 1037, 1), (2, 1037, 43), (2, 1040, 264)),
        *((2, 70, 3), (2, 70, 16), (2, 70, 264), (2, 70, 130), (2, 12, 264), (2, 7, 264), (2, 7, 43), (2, 70, 72)),
        *((48, 1037, 43), (8, 1037, 259), (32, 517, 257)),
    )
]


def _stays(case: TargetCase) -> bool:
    schedule = case.spec.schedule
    return schedule is not None and schedule.workgroups is not None and schedule.workgroups.persistent


def _written(subject: Subject) -> list[int]:
    """The cases that a spec writes, each for one number of those that it stands for."""
    written: dict[object, int] = {}
    for number, case in enumerate(subject.cases("sm_90")):
        key = (tuple(map(str, case.when)), str(case.spec.schedule), bool(case.before))
        written.setdefault(key, number)
    return [*written.values()]


CASES = [
    (subject, number)
    for subject in subjects("sm_90")
    if subject.file in ROWS
    for number in _written(subject)
    if not subject.cases("sm_90")[number].before
    and not (_stays(subject.cases("sm_90")[number]) and subject.name.endswith("_f16"))
]

COLUMNS = {
    "layer_norm": (1032, 2056, 3080, 3459, 4104, 5128, 6152, 8200, 10248, 12296, 16392, 24584, 98312),
    "rms_norm": (5001, 32001),
    "softmax": (50257, 98312),
}
STAYING = [
    (subject, n)
    for subject in subjects("sm_90")
    for n in COLUMNS.get(subject.file, ())
    if subject.spec.tensors["x"].dtype == "bf16"
]
"""Kernels whose workgroups stay with most of a tile's columns; in f16 they differ in how they round."""


def _resident(case: TargetCase, columns: int) -> int:
    """Workgroups on a processor, which may follow from how many waves a row needs."""
    resident = resident_of(lower(case.spec, HOPPER, after="fit-waves"), HOPPER)
    return int(resident.evaluate({"N": columns}))


def _few(stays: bool, resident: int) -> Machine:
    """A machine on which workgroups that stay have several rows, and as many of them as all of its places: 8, whose rows
    start as far beside an access in every round."""
    if not stays:
        return HOPPER
    processors = max(1, 8 // resident)
    return replace(HOPPER, processors=processors, clusters=dict.fromkeys(HOPPER.clusters, processors))


@cache
def _cases_of_any_rows(file: str) -> dict[str, tuple[TargetCase, ...]]:
    text = re.sub(r", M >= \d+\]", "]", (SPECS / f"{file}.wave.yaml").read_text())
    return {member.name: cases_for_target(member.spec, "sm_90") for member in loads_family(text, file, SPECS).members}


def _is_split(subject: Subject, number: int) -> bool:
    return lower(subject.cases("sm_90")[number].spec, HOPPER, after="assign-tiles").cluster > 1


def _columns(case: TargetCase) -> int:
    """Few, of whole vectors where the case is for these: of rows that cases before leave to this one, the shortest, and
    no more than it takes."""
    kernel = lower(case.spec, HOPPER, after="assign-tiles")
    (least, most) = next((known.low or 0, known.high or 504) for known in kernel.symbols if known.args[0] == "N")
    if "op='%'" in str(case.when):
        return max(min(504, most), -(-least // 8) * 8)
    return max(min(501, most - 1), least | 1)


@pytest.mark.rare
@pytest.mark.parametrize(("subject", "number"), CASES, ids=lambda value: getattr(value, "name", str(value)))
def test_every_case_is_right_without_a_race(subject: Subject, number: int) -> None:
    case = _cases_of_any_rows(subject.file)[subject.name][number]
    if subject.file == "sum_dim":
        case = subject.cases("sm_90")[number]
        sizes = next(one for one in SUMS if case_for_sizes((case, TargetCase((), case.spec)), one) is case)
    else:
        sizes = {"M": 2, "N": _columns(case)}
    resident = _resident(case, sizes["N"])
    machine = _few(_stays(case), resident)
    kernel = lower(case.spec, machine)
    if _stays(case):
        sizes["M"] = machine.processors * resident + 1
    inputs = subject.inputs(sizes)
    subject.check(inputs, simulated(subject, kernel, machine, subject.complete(sizes), inputs), sizes)


@pytest.mark.rare
@pytest.mark.parametrize(("subject", "columns"), STAYING, ids=lambda value: getattr(value, "name", str(value)))
def test_workgroups_that_stay_have_several_rows(subject: Subject, columns: int) -> None:
    """On a machine with one processor, or one cluster, in three rounds of which the last one is not full; the cases are
    for many rows, which is left out."""
    few = replace(HOPPER, processors=1, clusters=dict.fromkeys(HOPPER.clusters, 1))
    number = subject.case("sm_90", {"M": 4096, "N": columns})
    case = _cases_of_any_rows(subject.file)[subject.name][number]
    kernel = lower(case.spec, few)
    assert kernel.distribution.persistent
    sizes = {"M": 2 * _resident(case, columns) + 1, "N": columns}
    inputs = subject.inputs(sizes)
    subject.check(inputs, simulated(subject, kernel, few, subject.complete(sizes), inputs), sizes)


def test_long_rows_are_shared() -> None:
    shared = {subject.file for subject, number in CASES if _is_split(subject, number)}
    assert shared == set(ROWS) - {"topk"}
