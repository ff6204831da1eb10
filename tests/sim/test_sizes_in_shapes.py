"""Kernels whose shapes have expressions, by lanes of every machine, and by the reference."""

from __future__ import annotations

import pytest
import torch

from tests.kernels import array_to_tensor, tensor_to_array
from tests.ops.sizes_in_shapes import SIZES, SPECS, expected, inputs
from wavespec.pipeline import lower
from wavespec.schema import loads
from wavespec.schema.resolve import complete_sizes, numbers_of_contiguous
from wavespec.sim.reference import reference
from wavespec.sim.simt import simulate
from wavespec.targets.machine import machines
from wavespec.targets.names import TARGETS


@pytest.mark.parametrize("name", SPECS)
def test_the_reference_is_what_torch_has(name: str) -> None:
    for m, k in SIZES:
        given = inputs(name, m, k)
        for mine, theirs in zip(reference(loads(SPECS[name]), *given), expected(name, given), strict=True):
            torch.testing.assert_close(mine.float(), theirs, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", SPECS)
def test_lanes_compute_what_torch_has(name: str, target: str) -> None:
    spec, machine = loads(SPECS[name]), machines(target)[0]
    given = inputs(name, 5, 26)
    named = zip([one for one, tensor in spec.tensors.items() if tensor.role == "input"], given, strict=True)
    arrays = {one: tensor_to_array(x, spec.tensors[one].dtype) for one, x in named}
    sizes = complete_sizes(spec, {"M": 5, "K": 26})
    sizes |= numbers_of_contiguous(spec, sizes)
    report = simulate(lower(spec, machine), machine, arrays, sizes)
    assert report.ok, report.render()
    for one, theirs in zip("yz", expected(name, given), strict=True):
        torch.testing.assert_close(array_to_tensor(report.tensors[one], "f32"), theirs, rtol=1e-5, atol=1e-5)
