"""Numbers of a call far outside of all tensors, lane by lane."""

from __future__ import annotations

import pytest
import torch

from tests.kernels import array_to_tensor, tensor_to_array
from tests.ops.far_numbers import KERNELS, NUMBERS, SIZES, expected, numbers, spec_of
from wavespec.pipeline import lower
from wavespec.sim.simt import simulate
from wavespec.targets.machine import machines


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("target", ["sm_90", "gfx942"])
def test_what_is_multiplied_does_not_come_back(target: str, name: str) -> None:
    (machine,), x = machines(target), numbers()
    kernel = lower(spec_of(name), machine)
    sizes = {dim: size for dim, size in SIZES.items() if dim in spec_of(name).dims}
    for far in NUMBERS:
        report = simulate(kernel, machine, {"x": tensor_to_array(x, "f32")}, sizes, scalars={"far": far})
        assert report.ok, f"{far}: {report.render()}"
        assert torch.equal(array_to_tensor(report.tensors["y"], "f32"), expected(name, x, far)), far
