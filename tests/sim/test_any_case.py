"""Every kernel of ``specs/``, in sizes near the edges of the tiles of any of its cases: right results, no race."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kernels import Subject, subjects
from tests.sim.case_sizes import sizes_at_edges
from tests.sim.cases import lowered_case, run_case
from tests.sim.test_attention_cases import as_expanded
from wavespec.ir.kernel import Kernel
from wavespec.schema.cases import TargetCase
from wavespec.schema.language.models import KernelSpec
from wavespec.targets.machine import machines

FEW = replace(machines("sm_90")[0], processors=2)
"""So few that a workgroup has several tiles."""
_SHARE = 8
"""Of the examples of a profile, for each file; lowering a case takes a second."""
FILES = {subject.file: [one for one in subjects("sm_90") if one.file == subject.file] for subject in subjects("sm_90")}


def on_few(spec: KernelSpec) -> KernelSpec:
    """The kernel with as many workgroups as the machine of a few processors takes, where it says how many."""
    if spec.schedule is None or spec.schedule.workgroups is None or not spec.schedule.workgroups.count:
        return spec
    workgroups = spec.schedule.workgroups.model_copy(update={"count": 2 * FEW.processors})
    return spec.model_copy(update={"schedule": spec.schedule.model_copy(update={"workgroups": workgroups})})


@lru_cache(8)
def _lowered(subject: Subject, number: int) -> tuple[TargetCase, tuple[Kernel, ...]]:
    case = subject.cases("sm_90")[number]
    case = replace(case, spec=on_few(case.spec), before=tuple(map(on_few, case.before)))
    return case, lowered_case(case, FEW)


@pytest.mark.always
@pytest.mark.rare
@pytest.mark.parametrize("file", FILES)
@settings(max_examples=max(1, settings().max_examples // _SHARE))
@given(st.data())
def test_sizes_at_edges_are_right_without_a_race(file: str, data: st.DataObject) -> None:
    def choose(some: Any) -> Any:
        return data.draw(st.sampled_from(some))

    subject = choose(FILES[file])
    number = data.draw(st.integers(0, len(subject.cases("sm_90")) - 1))
    case, kernels = _lowered(subject, number)
    tries = (sizes_at_edges(subject, case, kernels, choose) for _ in range(20))
    sizes = next((one for one in tries if one is not None), None)
    if sizes is None:
        return
    inputs = subject.inputs(sizes)
    if not case.before:
        names = (name for name, tensor in subject.spec.tensors.items() if tensor.role != "output")
        inputs = tuple(as_expanded(kernels[-1], one, name) for one, name in zip(inputs, names, strict=True))
    subject.check(inputs, run_case(subject, case, kernels, FEW, sizes, inputs), sizes)
