"""Products of 8-bit floating point: what they mean, and who refuses them."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.lower.gemms import AMD, CPU
from tests.ops.epilogues import epilogue
from wavespec.diagnostics import WavespecError
from wavespec.ir.dtype import DTYPES
from wavespec.pipeline import lower
from wavespec.sim.elements import converted, numpy_dtype
from wavespec.sim.reference import reference
from wavespec.targets.machine import Machine

TORCH = {
    "f8e4m3fn": torch.float8_e4m3fn,
    "f8e5m2": torch.float8_e5m2,
    "f8e4m3fnuz": torch.float8_e4m3fnuz,
    "f8e5m2fnuz": torch.float8_e5m2fnuz,
}


@pytest.mark.parametrize("dtype", TORCH)
def test_reference_is_the_exact_product(dtype: str) -> None:
    a, b = (torch.randn(rows, 8).to(TORCH[dtype]) for rows in (5, 4))
    actual = reference(epilogue("y: {relu: sums.acc}", operands=dtype), a, b)
    assert torch.equal(actual, (a.double() @ b.double().T).relu())


@pytest.mark.parametrize("dtype", TORCH)
def test_the_simulator_knows_the_same_numbers_as_torch(dtype: str) -> None:
    numbers = torch.randn(1000)
    stored = converted(numbers.numpy(), DTYPES[dtype])
    assert stored.dtype == numpy_dtype(DTYPES[dtype])
    np.testing.assert_array_equal(stored.astype(np.float32), numbers.to(TORCH[dtype]).float().numpy())


@pytest.mark.parametrize("machine", [AMD, CPU], ids=lambda machine: machine.variant)
def test_a_machine_without_an_instruction_refuses(machine: Machine) -> None:
    with pytest.raises(WavespecError) as caught:
        lower(epilogue("y: {relu: sums.acc}", operands="f8e5m2fnuz"), machine)
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.message == f"{machine.variant} has no matrix instruction for f8e5m2fnuz inputs into f32."
