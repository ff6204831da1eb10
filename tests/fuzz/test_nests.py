"""Random nests of loops with products are computed right, whether waves run together or in turn."""

from __future__ import annotations

from random import Random

import pytest
import torch
from hypothesis import settings

from tests.fuzz.nests import Nest, nest
from tests.kernels import TORCH, array_to_tensor, tensor_to_array, tensors_of
from tests.rungs import often
from wavespec.diagnostics import WavespecError
from wavespec.pipeline import best_variant, build, lower
from wavespec.runtime import Kernel
from wavespec.schema import KernelSpec, loads
from wavespec.sim.simt import simulate
from wavespec.targets.machine import Machine, machines

pytestmark = pytest.mark.usefixtures("tiles_count")
EACH = settings().max_examples // 8  # a nest takes about three seconds; the long profile has 187 for each machine
MACHINES = [*machines("cpu"), *machines("gfx942"), *machines("sm_90")]


@pytest.mark.parametrize(
    "machine",
    # The variants of a CPU share all passes that know loops; here and below they run on this one.
    often(MACHINES, lambda machine: machine.target == "sm_90"),
    ids=lambda machine: machine.variant,
)
def test_nests_are_computed_right_in_the_simulator(machine: Machine) -> None:
    first, taken = 1000 * MACHINES.index(machine), 0
    count = 4 * EACH if machine.concurrent_waves else EACH  # which are refused more often, and simulated faster
    for seed in range(first, first + count):
        one = nest(Random(seed), cpu=not machine.concurrent_waves)
        spec = loads(one.text, f"nest{seed}.wave.yaml")
        try:
            kernel = lower(spec, machine)
        except WavespecError:
            continue
        taken += 1
        for sizes in one.sizes:
            given = one.inputs(sizes)
            arrays = {name: tensor_to_array(of_type, spec.tensors[name].dtype) for name, of_type in _typed(spec, given)}
            report = simulate(kernel, machine, arrays, sizes)
            assert report.ok, f"{seed}: {report.render()}\n{one.text}"
            results = {name: array_to_tensor(report.tensors[name], spec.tensors[name].dtype) for name in one.outputs}
            _check(one, sizes, given, results, seed)
    assert taken >= count // 4


def test_nests_are_computed_right_by_this_cpu() -> None:
    taken = 0
    for seed in range(EACH):
        one = nest(Random(seed), cpu=True)
        spec = loads(one.text, f"nest{seed}.wave.yaml")
        try:
            kernel = Kernel(build(spec, "cpu", only=best_variant("cpu")))
        except WavespecError:
            continue
        taken += 1
        for sizes in one.sizes:
            given = one.inputs(sizes)
            results = tensors_of(kernel(*(of_type for _, of_type in _typed(spec, given))))
            _check(one, sizes, given, dict(zip(one.outputs, results, strict=True)), seed)
    assert taken >= EACH // 3


def _typed(spec: KernelSpec, given: dict[str, torch.Tensor]) -> list[tuple[str, torch.Tensor]]:
    """Inputs in the order of the call, in their types."""
    inputs = [name for name, tensor in spec.tensors.items() if tensor.role == "input"]
    return [(name, given[name].to(TORCH[spec.tensors[name].dtype])) for name in inputs]


def _check(
    one: Nest, sizes: dict[str, int], given: dict[str, torch.Tensor], results: dict[str, torch.Tensor], seed: int
) -> None:
    for name, right in one.expected(sizes, given).items():
        assert torch.equal(results[name].double(), right), f"{name} of {seed} at {sizes} is wrong:\n{one.text}"
