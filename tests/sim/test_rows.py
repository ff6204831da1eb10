"""The specs of rows in the simulator: as close to f64 as torch is, no race, nothing read that was not written."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from tests.lower.gemms import AMD, CPU, NVIDIA
from wavespec.pipeline import lower
from wavespec.schema import load
from wavespec.schema.resolve import case_for_sizes, cases_for_target
from wavespec.sim.reference import reference
from wavespec.sim.simt import simulate
from wavespec.targets.machine import Machine

SPECS = Path(__file__).parents[2] / "specs"
NAMES = ("layer_norm", "log_softmax", "rms_norm", "softmax")


@pytest.mark.parametrize("machine", [NVIDIA, AMD, CPU], ids=lambda machine: machine.variant)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("shape", [(9, 700), (3, 1), (1, 513), (0, 4), (2, 4100)], ids=str)
def test_rows_are_as_close_as_torch(name: str, machine: Machine, shape: tuple[int, int]) -> None:
    sizes, generator = dict(zip("MN", shape, strict=True)), torch.Generator().manual_seed(sum(shape))
    spec = case_for_sizes(cases_for_target(load(SPECS / f"{name}.wave.yaml"), machine.target), sizes).spec
    inputs = {
        tensor: torch.randn([sizes[dim] for dim in described.shape], generator=generator)
        for tensor, described in spec.tensors.items()
        if described.role == "input"
    }
    report = simulate(lower(spec, machine), machine, {key: one.numpy() for key, one in inputs.items()}, sizes)
    assert report.ok, report.render()
    exact = np.asarray(reference(spec, *inputs.values()))
    theirs = np.asarray(reference(spec, *inputs.values(), compute=None))
    least = np.finfo(np.float32).eps / 2 * np.abs(exact).max(initial=0)
    allowed = 2 * max(np.abs(theirs - exact).max(initial=0), least)
    assert np.abs(report.tensors["y"] - exact).max(initial=0) <= allowed
