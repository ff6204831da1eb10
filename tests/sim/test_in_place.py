"""Kernels that read what they change, by the lanes of each machine: right, and without a race."""

from __future__ import annotations

import pytest
import torch

from tests.kernels import array_to_tensor, tensor_to_array
from tests.lower.gemms import MACHINES
from tests.ops.in_place import SIZES, SPECS, check, expected, inputs
from wavespec.pipeline import lower
from wavespec.schema import loads
from wavespec.sim.reference import reference
from wavespec.sim.simt import simulate
from wavespec.targets.machine import Machine


@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.variant)
@pytest.mark.parametrize("name", SPECS)
def test_each_element_is_read_before_it_is_written(machine: Machine, name: str) -> None:
    spec, given = loads(SPECS[name]), inputs(name)
    names = [name for name, tensor in spec.tensors.items() if tensor.role != "output"]
    arrays = {name: tensor_to_array(x, spec.tensors[name].dtype) for name, x in zip(names, given, strict=True)}
    report = simulate(lower(spec, machine), machine, arrays, SIZES[name])
    assert report.ok, report.render()
    written = [name for name, tensor in spec.tensors.items() if tensor.role != "input"]
    check(name, {one: array_to_tensor(report.tensors[one], spec.tensors[one].dtype) for one in written}, given)


@pytest.mark.parametrize("name", SPECS)
def test_the_reference_reads_what_was_there(name: str) -> None:
    spec, given = loads(SPECS[name]), inputs(name)
    found = reference(spec, *[x.clone() for x in given])
    written = [name for name, tensor in spec.tensors.items() if tensor.role != "input"]
    found = dict(zip(written, found if isinstance(found, tuple) else (found,), strict=True))
    for one, right in expected(name, given).items():
        torch.testing.assert_close(found[one].double(), right, rtol=1e-12, atol=1e-12)
