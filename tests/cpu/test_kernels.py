"""Every kernel of ``specs/`` on this machine's CPU: exact on whole numbers, as close as torch on others."""

from __future__ import annotations

from functools import cache

import pytest

from tests.edges import EDGES, Edge
from tests.kernels import KERNELS, Subject, subjects, tensors_of
from tests.rungs import often
from tests.specs import FAMILIES
from tests.specs import KERNELS as SPECS
from wavespec.pipeline import best_variant, build
from wavespec.runtime.kernel import Kernel


@cache
def kernel(subject: Subject) -> Kernel:
    return Kernel(build(subject.spec, "cpu", only=best_variant("cpu")))


def test_every_spec_has_a_row() -> None:
    files = sorted(path.name.removesuffix(".wave.yaml") for path in (*SPECS, *FAMILIES))
    assert sorted(KERNELS) == files, "add the new kernel to tests/kernels.py"


@pytest.mark.parametrize(
    "subject", often(subjects("cpu"), lambda one: not one.is_alike), ids=lambda subject: subject.name
)
def test_every_size(subject: Subject) -> None:
    row = subject.row
    runs = [*((sizes, row.exact) for sizes in (*row.small, *row.on_cpu)), *((sizes, False) for sizes in row.normal)]
    for sizes, whole in runs:
        inputs = subject.inputs(sizes, whole=whole)
        given = [tensor.clone() for tensor in inputs]  # some kernels change them
        subject.check(inputs, tensors_of(kernel(subject)(*given)), sizes, whole=whole)


@pytest.mark.parametrize("edge", EDGES, ids=lambda edge: f"{edge.subject}-{edge.name}")
def test_limits_are_those_of_torch(edge: Edge) -> None:
    inputs = edge.inputs()
    edge.check(inputs, tensors_of(kernel(edge.of)(*inputs.values())))
