"""Loops that end early, in the simulator and in the reference: right whenever they end, and they end."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.lower.gemms import AMD, CPU, NVIDIA
from tests.ops.ending_loops import FIRST, ROOT, first_inputs, root_inputs, root_steps
from wavespec.pipeline import lower
from wavespec.schema import loads
from wavespec.sim.reference import reference
from wavespec.sim.simt import simulate
from wavespec.targets.machine import Machine

MACHINES = pytest.mark.parametrize("machine", [CPU, NVIDIA, AMD], ids=lambda machine: machine.variant)


@MACHINES
def test_a_walk_ends_at_what_it_looks_for(machine: Machine) -> None:
    kernel = lower(loads(FIRST), machine)
    for m, n in ((5, 200), (2, 3), (2, 0), (0, 40)):
        x, expected = first_inputs(m, n)
        report = simulate(kernel, machine, {"x": x}, {"M": m, "N": n})
        assert report.ok, report.render()
        assert (report.tensors["y"] == expected).all()
        assert (np.asarray(reference(loads(FIRST), torch.tensor(x))) == expected).all()


def test_tiles_behind_the_end_are_not_read() -> None:
    kernel = lower(loads(FIRST), AMD)
    counts = {}
    for at in (0, 500):
        x = np.zeros((1, 512), np.int32)
        x[0, at] = 3
        counts[at] = simulate(kernel, AMD, {"x": x}, {"M": 1, "N": 512}).counts["global load bytes"]
    assert counts[500] == 16 * counts[0]


@MACHINES
def test_an_iteration_ends_when_nothing_moves(machine: Machine) -> None:
    x = root_inputs(4)
    report = simulate(lower(loads(ROOT), machine), machine, {"x": x}, {"M": 4})
    assert report.ok, report.render()
    assert np.allclose(report.tensors["y"], np.sqrt(x), rtol=1e-6)
    steps = report.tensors["steps"]
    assert (steps == root_steps(x)).all() and len(set(steps.tolist())) > 1


def test_in_the_reference_each_row_ends_apart() -> None:
    x = root_inputs(4)
    root, steps = reference(loads(ROOT), torch.tensor(x))
    assert np.allclose(root, np.sqrt(x.astype(np.float64)), rtol=1e-6)
    assert (np.asarray(steps) == root_steps(x)).all()


def test_steps_are_no_more_than_the_kernel_says() -> None:
    spec = loads(ROOT.replace("repeat: 40", "repeat: 2"))
    x = root_inputs(3)
    report = simulate(lower(spec, AMD), AMD, {"x": x}, {"M": 3})
    assert report.ok and set(report.tensors["steps"].tolist()) == {1, 2}
    assert (np.asarray(reference(spec, torch.tensor(x))[1]) == report.tensors["steps"]).all()
