"""What two rows make, in tiles of two sides, without a word of tiles in the spec."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.kernels import SPECS, tensor_to_array
from wavespec.pipeline import lower
from wavespec.schema import load
from wavespec.schema.cases import case_for_sizes, cases_for_target
from wavespec.schema.resolve import complete_sizes
from wavespec.sim.simt import simulate
from wavespec.targets.machine import machines

DISTANCES = SPECS.parent / "benchmarks" / "specs" / "planned" / "distances.wave.yaml"


@pytest.mark.parametrize(("rows", "columns", "steps"), [(70, 75, 3), (64, 68, 8), (130, 33, 17), (3, 2, 200)])
def test_distances_of_pairs(rows: int, columns: int, steps: int) -> None:
    spec, (machine,) = load(DISTANCES), machines("sm_90")
    sizes = complete_sizes(spec, {"M": rows, "N": columns, "K": steps})
    case = case_for_sizes(cases_for_target(spec, "sm_90"), sizes)
    random = torch.Generator().manual_seed(steps)
    x, y = (torch.randn(size, steps, generator=random) for size in (rows, columns))
    given = {name: tensor_to_array(one, "f32") for name, one in (("x", x), ("y", y))}
    report = simulate(lower(case.spec, machine), machine, given, sizes)
    assert report.ok, report.render()
    right = torch.cdist(x.double(), y.double()).numpy()
    np.testing.assert_allclose(np.asarray(report.tensors["d"]), right, rtol=1e-5, atol=1e-6)
