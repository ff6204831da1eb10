"""Every element type is read, converted to every other and written on every machine; single numbers are read."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
import torch
from torch import Tensor

from tests.lower.gemms import AMD, CPU, NVIDIA
from tests.ops.conversions import COMPUTED, conversions, expected, numbers
from wavespec.pipeline import lower
from wavespec.sim.elements import Array
from wavespec.sim.reference import reference
from wavespec.sim.simt import simulate
from wavespec.targets.machine import Machine


def to_numpy(tensor: Tensor) -> Array:
    bits = tensor.dtype == torch.bfloat16
    return tensor.view(torch.int16).numpy().view(ml_dtypes.bfloat16) if bits else tensor.numpy()


@pytest.mark.parametrize("machine", [NVIDIA, AMD, CPU], ids=lambda machine: machine.variant)
@pytest.mark.parametrize("dtype", COMPUTED)
def test_numbers_are_converted_as_torch_does(dtype: str, machine: Machine) -> None:
    spec, (x, only) = conversions(dtype), numbers(dtype)
    inputs = {"x": to_numpy(x), "only": to_numpy(only)}
    report = simulate(lower(spec, machine), machine, inputs, dict(zip("MN", x.shape, strict=True)))
    assert report.ok, report.render()
    outputs = [name for name, tensor in spec.tensors.items() if tensor.role == "output"]
    for name, right in zip(outputs, expected(x, only), strict=True):
        np.testing.assert_array_equal(report.tensors[name].astype(np.float64), to_numpy(right).astype(np.float64), name)


@pytest.mark.parametrize("dtype", COMPUTED)
def test_the_reference_in_its_own_types_is_torch(dtype: str) -> None:
    x, only = numbers(dtype)
    for got, right in zip(reference(conversions(dtype), x, only, compute=None), expected(x, only), strict=True):
        assert torch.equal(got, right)
