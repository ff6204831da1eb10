"""Every kernel of ``specs/`` on this machine's CPU: exact on whole numbers, as close as torch on others."""

from __future__ import annotations

from functools import cache

import pytest

from tests.edges import EDGES, Edge
from tests.kernels import KERNELS, Sizes, Subject, subjects, tensors_of
from tests.specs import FAMILIES
from tests.specs import KERNELS as SPECS
from wavespec.cache import CompileCache
from wavespec.pipeline import best_variant, build, build_part
from wavespec.runtime.kernel import Kernel


@cache
def kernel(subject: Subject) -> Kernel:
    return Kernel(build(subject.spec, "cpu", only=best_variant("cpu")))


@cache
def kernel_of_case(subject: Subject, case: int) -> Kernel:
    one = subject.cases("cpu")[case]
    if one.before:  # what they make is no tensor of a call
        return kernel(subject)
    return Kernel(build_part(one.spec, best_variant("cpu"), CompileCache()))


def test_every_spec_has_a_row() -> None:
    files = sorted(path.name.removesuffix(".wave.yaml") for path in (*SPECS, *FAMILIES))
    assert sorted(KERNELS) == files, "add the new kernel to tests/kernels.py"


@pytest.mark.always
@pytest.mark.parametrize("subject", subjects("cpu"), ids=lambda subject: subject.name)
def test_every_small_size(subject: Subject) -> None:
    for sizes in subject.row.small:
        case = subject.case("cpu", subject.complete(sizes))
        check(subject, kernel_of_case(subject, case), sizes, whole=subject.row.exact)


@pytest.mark.always
@pytest.mark.rare
@pytest.mark.parametrize("subject", subjects("cpu"), ids=lambda subject: subject.name)
def test_every_size(subject: Subject) -> None:
    row = subject.row
    for sizes in (*row.small, *row.on_cpu):
        check(subject, kernel(subject), sizes, whole=row.exact)
    for sizes in row.normal:
        check(subject, kernel(subject), sizes, whole=False)


def check(subject: Subject, called: Kernel, sizes: Sizes, *, whole: bool) -> None:
    inputs = subject.inputs(sizes, whole=whole)
    given = [tensor.clone() for tensor in inputs]  # some kernels change them
    subject.check(inputs, tensors_of(called(*given)), sizes, whole=whole)


@pytest.mark.parametrize("edge", EDGES, ids=lambda edge: f"{edge.subject}-{edge.name}")
def test_limits_are_those_of_torch(edge: Edge) -> None:
    inputs = edge.inputs()
    case = edge.of.case("cpu", edge.of.complete(edge.sizes))
    edge.check(inputs, tensors_of(kernel_of_case(edge.of, case)(*inputs.values())))
