"""Every kernel of ``specs/`` for variants that builds have to name, on this machine, which runs them as it does better
ones: as right as those."""

from __future__ import annotations

from functools import cache

import pytest

from tests.edges import EDGES, Edge
from tests.kernels import Subject, subjects, tensors_of
from tests.rungs import often
from wavespec.cache import CompileCache
from wavespec.pipeline import build, build_part
from wavespec.runtime.cpu_features import cpu_features
from wavespec.runtime.kernel import Kernel
from wavespec.targets.machine import variants

MACHINES = {machine.variant: machine for machine in variants("cpu") if machine.by_name}
SOME = ("gemm_f32", "gemm_i8", "attention_f32", "softmax_f16", "quantize_mxf4")
of_every_variant = pytest.mark.parametrize("variant", MACHINES)


@cache
def kernel(subject: Subject, variant: str, case: int) -> Kernel:
    machine = MACHINES[variant]
    if missing := set(machine.requires) - cpu_features():
        pytest.skip(f"this CPU has no {', '.join(sorted(missing))}")
    one = subject.cases("cpu")[case]
    if one.before:  # what they make is no tensor of a call
        return Kernel(build(subject.spec, "cpu", only=machine))
    return Kernel(build_part(one.spec, machine, CompileCache()))


@of_every_variant
@pytest.mark.parametrize(
    "subject", often(subjects("cpu"), lambda one: one.name in SOME), ids=lambda subject: subject.name
)
def test_every_small_size(subject: Subject, variant: str) -> None:
    for sizes in subject.row.small:
        called = kernel(subject, variant, subject.case("cpu", subject.complete(sizes)))
        for whole in {subject.row.exact, False}:
            inputs = subject.inputs(sizes, whole=whole)
            given = [tensor.clone() for tensor in inputs]  # some kernels change them
            subject.check(inputs, tensors_of(called(*given)), sizes, whole=whole)


@pytest.mark.rare
@of_every_variant
@pytest.mark.parametrize("edge", EDGES, ids=lambda edge: f"{edge.subject}-{edge.name}")
def test_limits_are_those_of_torch(edge: Edge, variant: str) -> None:
    inputs = edge.inputs()
    called = kernel(edge.of, variant, edge.of.case("cpu", edge.of.complete(edge.sizes)))
    edge.check(inputs, tensors_of(called(*inputs.values())))
