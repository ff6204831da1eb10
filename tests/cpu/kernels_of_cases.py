"""The kernel that a call on a variant of CPUs gets, built alone."""

from __future__ import annotations

from functools import cache

from tests.kernels import Sizes, Subject
from wavespec.cache import CompileCache
from wavespec.cases_on_machines import cases_on
from wavespec.pipeline import build, build_part
from wavespec.runtime.kernel import Kernel
from wavespec.schema.cases import TargetCase, case_for_sizes
from wavespec.targets.machine import Machine, machines


def kernel_for(subject: Subject, variant: str, sizes: Sizes) -> Kernel:
    """That of the case for these sizes; the whole of it where kernels run before, as what they make is no tensor of a
    call."""
    cases = _cases(subject, variant)
    case = case_for_sizes(cases, subject.complete(sizes))
    return whole_kernel(subject, variant) if case.before else _part(subject, variant, cases.index(case))


@cache
def whole_kernel(subject: Subject, variant: str) -> Kernel:
    return Kernel(build(subject.spec, "cpu", only=_machine(variant)))


@cache
def _cases(subject: Subject, variant: str) -> tuple[TargetCase, ...]:
    return cases_on(subject.spec, "cpu", (_machine(variant),))


@cache
def _part(subject: Subject, variant: str, case: int) -> Kernel:
    return Kernel(build_part(_cases(subject, variant)[case].spec, _machine(variant), CompileCache()))


def _machine(variant: str) -> Machine:
    (machine,) = machines(f"cpu:{variant}")
    return machine
