"""Specs without tiles whose operands are decoded, once or beside few rows: every case of them in the simulator."""

from __future__ import annotations

import pytest

from tests.bare import planned_anew
from tests.kernels import Sizes, Subject, subjects
from tests.rungs import often
from tests.sim.cases import lowered_case, run_case
from wavespec.schema.cases import TargetCase, cases_for_target
from wavespec.schema.language.models import Dim
from wavespec.targets.machine import machines

MANY, FEW = {"M": 70, "N": 72, "K": 160}, {"M": 5, "N": 72, "K": 1024}
SUBJECTS = {one.name: one for one in subjects("cpu") if one.name in ("linear_i4", "matmul_mxf8", "matmul_f8_blocks")}
MACHINES = {target: machines(target)[0] for target in ("cpu", "sm_90", "gfx942", "gfx950")}
CASES = {
    (name, target): cases_for_target(planned_anew(subject.spec), target)
    for name, subject in SUBJECTS.items()
    for target in MACHINES
}


def sizes_of(subject: Subject, case: TargetCase) -> Sizes:
    """Those that a case takes; of many steps as many as fill rows of scales, whose sizes follow from others."""
    dims, wanted = case.spec.dims, MANY if case.before else FEW
    found = subject.complete({name: taken(dims[name], size) for name, size in wanted.items()})
    if all(size % dims[name].multiple_of == 0 for name, size in found.items()):
        return found
    return subject.complete({**{name: found[name] for name in wanted}, "K": FEW["K"]})


def taken(dim: Dim, size: int) -> int:
    """The size, or one near to it that a case takes."""
    least = max(dim.min, min(size, dim.max or size))
    return least if least % dim.multiple_of == 0 else max(FEW["K"], dim.min)


@pytest.mark.parametrize(
    ("name", "target", "number"),
    often(
        [(*of, number) for of, cases in CASES.items() for number in range(len(cases))],
        lambda one: one[1] == "sm_90",
        pytest.mark.always,
    ),
)
def test_every_case_is_right_without_a_race(name: str, target: str, number: int) -> None:
    subject, case, machine = SUBJECTS[name], CASES[name, target][number], MACHINES[target]
    sizes = sizes_of(subject, case)
    inputs = subject.inputs(sizes)
    subject.check(inputs, run_case(subject, case, lowered_case(case, machine), machine, sizes, inputs), sizes)
