"""Numbers of 64 bits as places and as bounds, in the lane simulator."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels import array_to_tensor, tensor_to_array
from tests.ops.outside import ROWS, Outside, cases
from tests.ops.wide_bounds import BOUNDS, Bounds
from tests.sim.simulated_kernels import AMD, CPU, NVIDIA
from wavespec.pipeline import lower
from wavespec.sim.simt import simulate
from wavespec.targets.machine import Machine


@pytest.mark.parametrize("machine", [NVIDIA, AMD, CPU], ids=lambda machine: machine.target)
@pytest.mark.parametrize("case", cases(), ids=str)
def test_what_is_outside_reads_as_zero_and_is_not_written(case: Outside, machine: Machine) -> None:
    spec = case.spec
    kernel, given = lower(spec, machine), [name for name, tensor in spec.tensors.items() if tensor.role != "output"]
    for rows in ROWS:
        inputs = case.inputs(rows)
        arrays = {name: tensor_to_array(one, spec.tensors[name].dtype) for name, one in zip(given, inputs, strict=True)}
        report = simulate(kernel, machine, arrays, case.sizes)
        assert report.ok, report.render()
        found = array_to_tensor(report.tensors["y"], spec.tensors["y"].dtype)
        np.testing.assert_array_equal(found.double().numpy(), case.expected(inputs).double().numpy())


@pytest.mark.parametrize("machine", [NVIDIA, AMD, CPU], ids=lambda machine: machine.target)
@pytest.mark.parametrize("word", BOUNDS)
def test_bounds_and_conditions_are_not_cut(word: str, machine: Machine) -> None:
    case = Bounds(word)
    x, n = (one.numpy() for one in case.inputs)
    report = simulate(lower(case.spec, machine), machine, {"x": x, "n": n}, case.sizes)
    assert report.ok, report.render()
    np.testing.assert_array_equal(report.tensors["y"], case.expected.numpy())
