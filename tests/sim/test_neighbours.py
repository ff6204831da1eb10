"""The number next to another in its own type, by lanes of every machine."""

from __future__ import annotations

import pytest

from tests.kernels import array_to_tensor, tensor_to_array
from tests.ops.neighbours import TORCH, check, pairs, spec
from wavespec.pipeline import lower
from wavespec.sim.simt import simulate
from wavespec.targets.machine import machines
from wavespec.targets.names import TARGETS


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", TORCH)
def test_neighbours_are_those_of_the_type(dtype: str, target: str) -> None:
    machine, (x, y) = machines(target)[0], pairs(dtype)
    arrays = {"x": tensor_to_array(x, dtype), "y": tensor_to_array(y, dtype)}
    report = simulate(lower(spec(dtype), machine), machine, arrays, {"M": len(x), "N": len(x)})
    assert report.ok, report.render()
    check(dtype, array_to_tensor(report.tensors["z"], dtype))
