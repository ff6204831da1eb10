"""`copysign` from a spec to results: exact, for all numbers, on this machine and in the simulator of lanes for others."""

from __future__ import annotations

import pytest
import torch

from tests.kernels import array_to_tensor, tensor_to_array
from wavespec.pipeline import compile, lower
from wavespec.schema import loads
from wavespec.sim.simt import simulate
from wavespec.targets.machine import Machine, machines
from wavespec.targets.names import TARGETS

MACHINES = [machines(target)[0] for target in TARGETS]
ROWS = 5
SPECIAL = (0.0, -0.0, 1.0, -1.0, float("inf"), -float("inf"), float("nan"), 2.0**-14)
TYPES = {"f64": torch.float64, "f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}


def text(dtype: str) -> str:
    return f"""apiVersion: wavespec/v1
kind: Kernel
name: signs
dims: {{M: {{}}, N: {{value: 64}}}}
tensors:
  x: {{shape: [M, N], dtype: {dtype}}}
  sign: {{shape: [M, N], dtype: {dtype}}}
  y: {{shape: [M, N], dtype: {dtype}, role: output}}
constraints:
  - {{workgroup: M, tile: 4, axis: 0}}
graph:
  - value: {{read: x}}
  - whose: {{read: sign}}
  - signed: {{copysign: [value, whose]}}
  - {{write: signed, to: y}}
"""


def operands(dtype: str) -> tuple[torch.Tensor, torch.Tensor]:
    """All pairs of special numbers, and random ones."""
    x, sign = torch.randn(2, ROWS * 64).to(TYPES[dtype])
    pairs = torch.tensor(SPECIAL, dtype=TYPES[dtype])
    x[: len(pairs) ** 2], sign[: len(pairs) ** 2] = pairs.repeat(len(pairs)), pairs.repeat_interleave(len(pairs))
    return x.reshape(ROWS, 64), sign.reshape(ROWS, 64)


def assert_exact(actual: torch.Tensor, x: torch.Tensor, sign: torch.Tensor) -> None:
    expected = torch.copysign(x, sign)
    torch.testing.assert_close(actual, expected, rtol=0, atol=0, equal_nan=True)
    known = ~expected.isnan()
    assert torch.equal(actual.signbit()[known], expected.signbit()[known])


@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.target)
@pytest.mark.parametrize("dtype", TYPES)
def test_signs_are_copied_by_lanes(dtype: str, machine: Machine) -> None:
    x, sign = operands(dtype)
    inputs = {"x": tensor_to_array(x, dtype), "sign": tensor_to_array(sign, dtype)}
    report = simulate(lower(loads(text(dtype)), machine), machine, inputs, {"M": ROWS, "N": 64})
    assert report.ok, report.render()
    assert_exact(array_to_tensor(report.tensors["y"], dtype), x, sign)


@pytest.mark.compiles
@pytest.mark.parametrize("dtype", TYPES)
def test_signs_are_copied_on_this_machine(dtype: str) -> None:
    x, sign = operands(dtype)
    result = compile(loads(text(dtype)))(x, sign)
    assert isinstance(result, torch.Tensor)
    assert_exact(result, x, sign)
