"""Every kernel of ``specs/`` for aarch64, run by an emulator: as right as on the CPU that tests run on."""

from __future__ import annotations

from functools import cache

import pytest

from tests.aarch64.emulated import emulated_launcher, needs_emulator
from tests.edges import EDGES, Edge
from tests.kernels import Subject, subjects, tensors_of
from wavespec.pipeline import build
from wavespec.runtime.kernel import Kernel
from wavespec.targets.machine import variants

pytestmark = [pytest.mark.rare, pytest.mark.long, needs_emulator]

MACHINES = {machine.variant: machine for machine in variants("cpu") if machine.architecture == "aarch64"}
of_every_variant = pytest.mark.parametrize("variant", MACHINES)


@pytest.fixture(autouse=True)
def emulator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wavespec.runtime.kernel.make_launcher", emulated_launcher)


@cache
def kernel(subject: Subject, variant: str) -> Kernel:
    return Kernel(build(subject.spec, "cpu", only=MACHINES[variant]))


@of_every_variant
@pytest.mark.parametrize("subject", subjects("cpu"), ids=lambda subject: subject.name)
def test_every_small_size(subject: Subject, variant: str) -> None:
    for sizes in subject.row.small:
        inputs = subject.inputs(sizes)
        given = [tensor.clone() for tensor in inputs]  # some kernels change them
        subject.check(inputs, tensors_of(kernel(subject, variant)(*given)), sizes)


@of_every_variant
@pytest.mark.parametrize("edge", EDGES, ids=lambda edge: f"{edge.subject}-{edge.name}")
def test_limits_are_those_of_torch(edge: Edge, variant: str) -> None:
    inputs = edge.inputs()
    edge.check(inputs, tensors_of(kernel(edge.of, variant)(*inputs.values())))
