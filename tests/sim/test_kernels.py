"""Every kernel of ``specs/`` in the simulator of lanes: right results, no race, nothing read that was not written."""

from __future__ import annotations

import pytest

from tests.kernels import Subject, elements_to_tensor, subjects, tensor_to_elements
from wavespec.ir.kernel import Kernel
from wavespec.pipeline import lower
from wavespec.sim.simt import simulate
from wavespec.targets.machine import machines

TARGETS = ("sm_90", "gfx942")


@pytest.mark.parametrize(
    ("target", "subject"),
    [
        pytest.param(target, subject, id=f"{target}-{subject.name}")
        for target in TARGETS
        for subject in subjects(target)
    ],
)
def test_every_small_size(target: str, subject: Subject) -> None:
    (machine,), lowered = machines(target), dict[int, Kernel]()
    tensors = subject.spec.tensors
    inputs_of = [name for name, tensor in tensors.items() if tensor.role != "output"]
    for sizes in map(subject.complete, subject.row.small):
        case = subject.case(target, sizes)
        if case not in lowered:
            lowered[case] = lower(subject.cases(target)[case].spec, machine)
        inputs = subject.inputs(sizes)
        arrays = {
            name: tensor_to_elements(tensor, tensors[name].dtype)
            for name, tensor in zip(inputs_of, inputs, strict=True)
        }
        report = simulate(lowered[case], machine, arrays, sizes)
        assert report.ok, f"{dict(sizes)}:\n{report.render()}"
        results = [elements_to_tensor(report.tensors[name], tensors[name].dtype) for name in subject.written]
        subject.check(inputs, results, sizes)
