"""Products with few tiles whose steps workgroups share out, by the plan of the compiler: right in the simulator."""

from __future__ import annotations

import pytest

from tests.bare import planned_anew
from tests.kernels import subjects
from tests.sim.plan_variations import simulated
from wavespec.pipeline import lower
from wavespec.schema.cases import case_for_sizes, cases_for_target
from wavespec.targets.machine import machines

(HOPPER,) = machines("sm_90")


@pytest.mark.parametrize(
    ("name", "sizes", "split"),
    [
        ("matmul_bf16", {"M": 3, "N": 72, "K": 3080}, 8),
        ("matmul_bf16", {"M": 20, "N": 72, "K": 2184}, 8),
        ("gemm_f32", {"M": 1, "N": 9, "K": 4100}, 8),
        ("gemm_f32", {"M": 9, "N": 9, "K": 4100}, 4),
        ("linear_i4", {"M": 9, "N": 72, "K": 2048}, 8),
    ],
    ids=str,
)
def test_steps_are_shared_out(name: str, sizes: dict[str, int], split: int) -> None:
    subject = next(one for one in subjects("sm_90") if one.name == name)
    full = subject.complete(sizes)
    kernel = lower(case_for_sizes(cases_for_target(planned_anew(subject.spec), "sm_90"), full).spec, HOPPER)
    assert kernel.distribution.split == split
    inputs = subject.inputs(sizes)
    subject.check(inputs, simulated(subject, kernel, HOPPER, full, inputs), sizes)
