"""Every kernel of ``specs/`` on this machine's CPU: exact on whole numbers, as close as torch on others."""

from __future__ import annotations

import pytest

from tests.cpu.kernels_of_cases import kernel_for, whole_kernel
from tests.edges import EDGES, Edge
from tests.kernels import KERNELS, Sizes, Subject, subjects, tensors_of
from tests.specs import FAMILIES
from tests.specs import KERNELS as SPECS
from wavespec.pipeline import best_variant
from wavespec.runtime.kernel import Kernel

HERE = best_variant("cpu").variant


def test_every_spec_has_a_row() -> None:
    files = sorted(path.name.removesuffix(".wave.yaml") for path in (*SPECS, *FAMILIES))
    assert sorted(KERNELS) == files, "add the new kernel to tests/kernels.py"


@pytest.mark.always
@pytest.mark.parametrize("subject", subjects("cpu"), ids=lambda subject: subject.name)
def test_every_small_size(subject: Subject) -> None:
    for sizes in subject.row.small:
        check(subject, kernel_for(subject, HERE, sizes), sizes, whole=subject.row.exact)


@pytest.mark.always
@pytest.mark.rare
@pytest.mark.parametrize("subject", subjects("cpu"), ids=lambda subject: subject.name)
def test_every_size(subject: Subject) -> None:
    """All cases as one artifact; of a further type those that the sizes are of."""

    def called(sizes: Sizes) -> Kernel:
        return whole_kernel(subject, HERE) if subject.is_first_type else kernel_for(subject, HERE, sizes)

    row = subject.row
    for sizes in (*row.small, *row.on_cpu):
        check(subject, called(sizes), sizes, whole=row.exact)
    for sizes in row.normal:
        check(subject, called(sizes), sizes, whole=False)


def check(subject: Subject, called: Kernel, sizes: Sizes, *, whole: bool) -> None:
    inputs = subject.inputs(sizes, whole=whole)
    given = [tensor.clone() for tensor in inputs]  # some kernels change them
    subject.check(inputs, tensors_of(called(*given)), sizes, whole=whole)


@pytest.mark.parametrize("edge", EDGES, ids=lambda edge: f"{edge.subject}-{edge.name}")
def test_limits_are_those_of_torch(edge: Edge) -> None:
    inputs = edge.inputs()
    edge.check(inputs, tensors_of(kernel_for(edge.of, HERE, edge.sizes)(*inputs.values())))
