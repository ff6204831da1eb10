"""Every kernel of ``specs/`` for variants that builds have to name, on this machine, which runs them as it does better
ones: as right as those."""

from __future__ import annotations

import pytest

from tests.cpu.kernels_of_cases import kernel_for
from tests.edges import EDGES, Edge
from tests.kernels import Sizes, Subject, subjects, tensors_of
from tests.rungs import often
from wavespec.runtime.cpu_features import cpu_features
from wavespec.runtime.kernel import Kernel
from wavespec.targets.machine import variants

MACHINES = {machine.variant: machine for machine in variants("cpu") if machine.by_name}
SOME = ("gemm_f32", "gemm_i8", "attention_f32", "softmax_f16", "quantize_mxf4")
of_every_variant = pytest.mark.parametrize("variant", MACHINES)


def kernel(subject: Subject, variant: str, sizes: Sizes) -> Kernel:
    machine = MACHINES[variant]
    if missing := set(machine.requires) - cpu_features():
        pytest.skip(f"this CPU has no {', '.join(sorted(missing))}")
    return kernel_for(subject, variant, sizes)


@of_every_variant
@pytest.mark.parametrize(
    "subject",
    [
        *often([one for one in subjects("cpu") if one.name in SOME], lambda _: True, pytest.mark.always),
        *often(
            [one for one in subjects("cpu") if one.name not in SOME],
            lambda one: one.is_first_type,
            pytest.mark.rare,
            pytest.mark.always,
        ),
    ],
    ids=lambda subject: subject.name,
)
def test_every_small_size(subject: Subject, variant: str) -> None:
    for sizes in subject.row.small:
        called = kernel(subject, variant, sizes)
        for whole in {subject.row.exact, False}:
            inputs = subject.inputs(sizes, whole=whole)
            given = [tensor.clone() for tensor in inputs]  # some kernels change them
            subject.check(inputs, tensors_of(called(*given)), sizes, whole=whole)


@pytest.mark.rare
@of_every_variant
@pytest.mark.parametrize("edge", EDGES, ids=lambda edge: f"{edge.subject}-{edge.name}")
def test_limits_are_those_of_torch(edge: Edge, variant: str) -> None:
    inputs = edge.inputs()
    called = kernel(edge.of, variant, edge.sizes)
    edge.check(inputs, tensors_of(called(*inputs.values())))
