"""What lacks an empty dim of the grid is computed all the same, in the lane simulator and as bundles say it."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels import array_to_tensor, tensor_to_array
from tests.ops.empty_grids import EMPTY_GRIDS, EmptyGrid
from wavespec.pipeline import emit_variant, lower
from wavespec.runtime.launch_plan import make_plan
from wavespec.sim.simt import simulate
from wavespec.targets.machine import machines

CASES = [(case, target) for case in EMPTY_GRIDS for target in case.only]


@pytest.mark.parametrize(("case", "target"), CASES, ids=str)
def test_a_value_without_the_empty_dim_is_written(case: EmptyGrid, target: str) -> None:
    spec, machine = case.spec, machines(target)[0]
    kernel, given = lower(spec, machine), [name for name, tensor in spec.tensors.items() if tensor.role != "output"]
    arrays = {
        name: tensor_to_array(one, spec.tensors[name].dtype) for name, one in zip(given, case.inputs, strict=True)
    }
    sizes = {"M": 0, "K": 70} if "N" not in spec.dims else {"M": 0, "N": 70, "K": 40}
    report = simulate(kernel, machine, arrays, sizes)
    assert report.ok, report.render()
    np.testing.assert_array_equal(array_to_tensor(report.tensors["y"], "f32").numpy(), case.expected.numpy())
    artifact = emit_variant(spec, machine)
    assert make_plan(artifact, sizes).workgroups > 0
    assert not make_plan(artifact, sizes | dict.fromkeys(sizes, 0)).workgroups, "nothing is written without elements"
