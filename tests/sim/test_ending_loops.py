"""Loops that end early, in the simulator and in the reference: right whenever they end, and they end."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.lower.gemms import AMD, CPU, NVIDIA
from tests.ops.ending_loops import (
    FIRST,
    ROOT,
    SPARSEMAX,
    first_inputs,
    limited,
    limited_inputs,
    root_inputs,
    root_steps,
    sparsemax,
)
from wavespec.diagnostics import WavespecError
from wavespec.pipeline import lower
from wavespec.schema import loads
from wavespec.sim.reference import reference
from wavespec.sim.simt import simulate
from wavespec.targets.machine import Machine

pytestmark = pytest.mark.usefixtures("tiles_count")

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


@pytest.mark.parametrize(
    ("machine", "stages"), [(CPU, 1), (NVIDIA, 1), (AMD, 2)], ids=lambda value: getattr(value, "variant", value)
)
def test_products_end_early(machine: Machine, stages: int) -> None:
    kernel = lower(loads(limited(stages, "global" if machine is CPU else "shared")), machine)
    for (m, n, k), limit in (((70, 40, 136), 2), ((3, 5, 72), 9), ((65, 1, 64), 0), ((2, 2, 0), 3)):
        a, b, most = limited_inputs(m, n, k, limit)
        report = simulate(kernel, machine, {"a": a, "b": b, "limit": most}, {"M": m, "N": n, "K": k})
        assert report.ok, report.render()
        assert (report.tensors["c"] == a.astype(np.float32) @ b.astype(np.float32).T).all()


def test_a_note_says_that_steps_do_not_overlap() -> None:
    assert lower(loads(limited(2, "shared")), AMD).notes == (
        "k_loop: steps do not overlap, because each may be the last.",
    )
    assert not lower(loads(limited(1, "shared")), AMD).notes


def test_a_loop_that_may_end_early_takes_no_schedule_and_no_waves_that_only_copy() -> None:
    planned = limited(2, "shared").replace("stages: 2", "stages: 2, loops: {k_loop: {stages: 3}}")
    with pytest.raises(WavespecError, match=r"error\[not-innermost\]"):
        lower(loads(planned), AMD)
    copied = limited(3, "shared").replace("stages: 3", "stages: 3, waves: {producers: 1}")
    with pytest.raises(WavespecError, match=r"error\[values-not-shared\]"):
        lower(loads(copied.replace("wave: M, tile: 32", "wave: M, tile: 64")), NVIDIA)


def test_what_ends_a_loop_is_one_for_a_workgroup() -> None:
    with pytest.raises(WavespecError, match=r"error\[not-uniform\]"):
        lower(loads(FIRST.replace("{workgroup: M, tile: 1,", "{workgroup: M, tile: 2,")), AMD)


@MACHINES
def test_a_row_is_walked_over_until_nothing_changes(machine: Machine) -> None:
    kernel = lower(loads(SPARSEMAX), machine)
    for sizes in ((3, 70), (1, 1), (0, 5)):
        x = np.random.default_rng(1).normal(size=sizes).astype(np.float32)
        report = simulate(kernel, machine, {"x": x}, dict(zip("MN", sizes, strict=True)))
        assert report.ok, report.render()
        assert np.allclose(report.tensors["y"], sparsemax(x), atol=1e-6)
        assert np.allclose(reference(loads(SPARSEMAX), torch.tensor(x)), sparsemax(x), atol=1e-12)
