"""Numbers counted in shared memory by workgroups that stay, simulated lane by lane."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from wavespec.pipeline import lower
from wavespec.schema import load
from wavespec.schema.cases import case_for_sizes, cases_for_target
from wavespec.sim.simt import simulate
from wavespec.targets.machine import machines

SPEC = Path(__file__).parents[2] / "specs" / "bincount.wave.yaml"


def test_bins_have_what_was_there_and_all_numbers_inside() -> None:
    (machine,) = machines("sm_90")
    sizes, random = {"N": 65536 + 37, "B": 1000}, np.random.default_rng(0)
    case = case_for_sizes(cases_for_target(load(SPEC), "sm_90"), sizes)
    kernel = lower(case.spec, machine)
    assert [one.space for one in kernel.memories if one.name.startswith("counts")] == ["global", "shared"]
    x = random.integers(-5, 1005, sizes["N"]).astype(np.int32)
    counts = random.integers(0, 9, 1000).astype(np.int32)
    report = simulate(kernel, machine, {"x": x, "counts": counts}, sizes)
    assert report.ok, report.render()
    expected = counts + np.bincount(x[(x >= 0) & (x < 1000)], minlength=1000)
    np.testing.assert_array_equal(report.tensors["counts"], expected)
