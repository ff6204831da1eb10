"""A gated linear recurrence by the lanes of each machine, without a race."""

from __future__ import annotations

import pytest
import torch

from tests.kernels import array_to_tensor, tensor_to_array
from tests.lower.gemms import AMD, AMD_COPYING, NVIDIA
from tests.ops import gated
from wavespec.pipeline import lower
from wavespec.schema import loads
from wavespec.sim.reference import reference
from wavespec.sim.simt import simulate
from wavespec.targets.machine import Machine


@pytest.mark.parametrize("machine", [NVIDIA, AMD, AMD_COPYING], ids=lambda machine: machine.variant)
def test_a_gated_linear_recurrence(machine: Machine) -> None:
    spec, given = loads(gated.SPEC), gated.inputs(2, 37, 70)
    names = [name for name, tensor in spec.tensors.items() if tensor.role == "input"]
    arrays = {name: tensor_to_array(x, spec.tensors[name].dtype) for name, x in zip(names, given, strict=True)}
    report = simulate(lower(spec, machine), machine, arrays, {"B": 2, "T": 37, "D": 70})
    assert report.ok, report.render()
    y, after = (array_to_tensor(report.tensors[name], spec.tensors[name].dtype) for name in ("y", "after"))
    gated.check((y, after), given)


def test_the_reference_is_a_loop() -> None:
    given = gated.inputs(2, 37, 70)
    for found, right in zip(reference(loads(gated.SPEC), *given), gated.by_a_loop(*given), strict=True):
        torch.testing.assert_close(found, right, rtol=1e-12, atol=1e-12)
