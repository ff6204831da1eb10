"""The kernel that a call on a variant of CPUs gets, built alone: of dozens of cases a test calls a few."""

from __future__ import annotations

from functools import cache
from typing import Any

from torch import Tensor

from tests.kernels import Sizes, Subject
from wavespec.cache import CompileCache
from wavespec.cases_on_machines import cases_on
from wavespec.pipeline import build, build_part, join_cases
from wavespec.runtime.artifact import PACKED, KernelArtifact
from wavespec.runtime.kernel import Kernel
from wavespec.schema import KernelSpec
from wavespec.schema.cases import TargetCase, case_for_sizes
from wavespec.schema.resolve import complete_sizes
from wavespec.targets.machine import Machine, machines


class KernelsOfCases:
    """A kernel for one variant; each case is built when a call is of it."""

    def __init__(self, spec: KernelSpec, machine: Machine) -> None:
        self.spec, self.machine = spec, machine
        self.cases = cases_on(spec, "cpu", (machine,))
        self._built: dict[int, Kernel] = {}

    def __call__(self, *inputs: Tensor) -> Any:
        """What the case for these inputs computes."""
        given = [tensor for tensor in self.spec.tensors.values() if tensor.role != "output"]
        sizes: dict[str, int] = {}
        for one, tensor in zip(given, inputs, strict=True):
            elements, bytes_ = PACKED.get(one.dtype, (1, 1))
            sizes |= dict(zip(one.shape, tensor.shape, strict=True))
            if one.shape:
                sizes[one.shape[-1]] = tensor.shape[-1] // bytes_ * elements
        return self.for_sizes(complete_sizes(self.spec, sizes))(*inputs)

    def for_sizes(self, sizes: Sizes) -> Kernel:
        """That of the case for these sizes, which are those of all dims."""
        case = case_for_sizes(self.cases, sizes)
        number = self.cases.index(case)
        if number not in self._built:
            self._built[number] = Kernel(self._artifact(case))
        return self._built[number]

    def _artifact(self, case: TargetCase) -> KernelArtifact:
        if not case.before:
            return self._part(case.spec)
        # What kernels before make is no tensor of a call: the kernel for all sizes says what these are.
        every = self.cases[-1]
        return join_cases((case, every), [list(map(self._part, case.kernels)), [self._part(every.spec)]])

    def _part(self, spec: KernelSpec) -> KernelArtifact:
        return build_part(spec, self.machine, CompileCache())


def kernel_for(subject: Subject, variant: str, sizes: Sizes) -> Kernel:
    """That of the case for these sizes."""
    return _kernels(subject, variant).for_sizes(subject.complete(sizes))


@cache
def whole_kernel(subject: Subject, variant: str) -> Kernel:
    return Kernel(build(subject.spec, "cpu", only=_machine(variant)))


@cache
def _kernels(subject: Subject, variant: str) -> KernelsOfCases:
    return KernelsOfCases(subject.spec, _machine(variant))


def _machine(variant: str) -> Machine:
    (machine,) = machines(f"cpu:{variant}")
    return machine
