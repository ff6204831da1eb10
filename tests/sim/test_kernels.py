"""Every kernel of ``specs/`` in the simulator of lanes: right results, no race, nothing read that was not written."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from tests.edges import EDGES, Edge
from tests.kernels import Sizes, Subject, subjects
from tests.sim.cases import lowered_case, run_case
from wavespec.ir.kernel import Kernel
from wavespec.targets.machine import machines

TARGETS = ("sm_90", "gfx942")


@pytest.mark.always
@pytest.mark.parametrize(
    ("target", "subject"),
    [
        pytest.param(
            target, subject, id=f"{target}-{subject.name}", marks=[pytest.mark.rare] if subject.is_alike else []
        )
        for target in TARGETS
        for subject in subjects(target)
    ],
)
def test_every_small_size(target: str, subject: Subject) -> None:
    lowered = dict[int, tuple[Kernel, ...]]()
    for sizes in map(subject.complete, subject.row.small):
        inputs = subject.inputs(sizes)
        subject.check(inputs, simulated(target, subject, sizes, inputs, lowered), sizes)


@pytest.mark.parametrize("edge", EDGES, ids=lambda edge: f"{edge.subject}-{edge.name}")
@pytest.mark.parametrize("target", TARGETS)
def test_limits_are_those_of_torch(target: str, edge: Edge) -> None:
    inputs, sizes = edge.inputs(), edge.of.complete(edge.sizes)
    edge.check(inputs, tuple(simulated(target, edge.of, sizes, tuple(inputs.values()), {})))


@pytest.mark.parametrize("target", TARGETS)
def test_groups_that_overlap_are_a_conflict(target: str) -> None:
    subject = next(one for one in subjects(target) if one.name == "grouped_gemm")
    sizes = subject.complete({"T": 9, "N": 40, "K": 16, "B": 4})
    *others, offsets = subject.inputs(sizes)
    offsets[:] = torch.tensor([0, 5, 3, 9])
    with pytest.raises(AssertionError, match=r"output-conflict.*store different values to element \[3, 0\] of @y"):
        simulated(target, subject, sizes, (*others, offsets), {})


def simulated(
    target: str, subject: Subject, sizes: Sizes, inputs: tuple[Tensor, ...], lowered: dict[int, tuple[Kernel, ...]]
) -> list[Tensor]:
    """What a call writes; kernels that are `lowered` are kept."""
    (machine,), number = machines(target), subject.case(target, sizes)
    case = subject.cases(target)[number]
    if number not in lowered:
        lowered[number] = lowered_case(case, machine)
    return run_case(subject, case, lowered[number], machine, sizes, inputs)
