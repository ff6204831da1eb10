"""Specs without tiles whose operands are decoded, once or beside few rows: every case of them in the simulator."""

from __future__ import annotations

import pytest

from tests.bare import planned_anew
from tests.kernels import subjects
from tests.sim.cases import lowered_case, run_case
from wavespec.schema.cases import cases_for_target
from wavespec.targets.machine import machines

MANY, FEW = {"M": 70, "N": 72, "K": 160}, {"M": 5, "N": 72, "K": 1024}
SUBJECTS = {one.name: one for one in subjects("cpu") if one.name in ("linear_i4", "matmul_mxf8", "matmul_f8_blocks")}
MACHINES = [machines(target)[0] for target in ("cpu", "sm_90", "gfx942", "gfx950")]
CASES = [
    (name, machine, case)
    for name, subject in SUBJECTS.items()
    for machine in MACHINES
    for case in cases_for_target(planned_anew(subject.spec), machine.target)
]


@pytest.mark.parametrize(
    ("name", "number"),
    [(name, number) for number, (name, _, _) in enumerate(CASES)],
    ids=[f"{name}-{machine.target}-{number}" for number, (name, machine, _) in enumerate(CASES)],
)
def test_every_case_is_right_without_a_race(name: str, number: int) -> None:
    _, machine, case = CASES[number]
    subject = SUBJECTS[name]
    sizes = subject.complete(
        {**MANY, "M": min(MANY["M"], case.spec.dims["M"].max or MANY["M"])} if case.before else FEW
    )
    inputs = subject.inputs(sizes)
    subject.check(inputs, run_case(subject, case, lowered_case(case, machine), machine, sizes, inputs), sizes)
