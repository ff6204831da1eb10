"""Loops that leave out tiles, in the simulator: right whatever is left out, and with every schedule."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tests.lower.gemms import AMD, CPU, NVIDIA
from tests.ops.control import Parts, Product
from wavespec.diagnostics import WavespecError
from wavespec.pipeline import lower
from wavespec.sim.reference import reference
from wavespec.sim.simt import simulate
from wavespec.targets.machine import Machine

SIZES = ((5, 100, 3), (4, 16, 1), (1, 0, 2), (3, 33, 5), (0, 9, 1))


@pytest.mark.parametrize("machine", [CPU, NVIDIA, AMD], ids=lambda machine: machine.variant)
def test_workgroups_share_out_the_tiles_of_a_row(machine: Machine) -> None:
    kernel = lower(Parts().spec, machine)
    for m, n, p in SIZES:
        x, first = Parts().inputs(m, n, p)
        report = simulate(kernel, machine, {"x": x, "p": first}, {"M": m, "N": n, "P": p})
        assert report.ok, report.render()
        assert (report.tensors["y"] == Parts().expected(x, first)).all()


def test_reference_has_all_parts() -> None:
    for sizes in SIZES:
        x, first = Parts().inputs(*sizes)
        assert (np.asarray(reference(Parts().spec, *map(torch.tensor, (x, first)))) == Parts().expected(x, first)).all()


@pytest.mark.parametrize("step", ["2", "max(M // 16, 1)"])
@pytest.mark.parametrize(
    ("machine", "stages", "schedule"),
    [
        pytest.param(CPU, 1, "", marks=pytest.mark.rare),
        (NVIDIA, 1, ""),
        (NVIDIA, 3, ""),
        (NVIDIA, 3, ", waves: {producers: 1}"),
        (AMD, 2, ""),
        (AMD, 2, ", auto: modulo"),
    ],
    ids=lambda value: getattr(value, "variant", value),
)
def test_products_of_every_other_tile(machine: Machine, stages: int, schedule: str, step: str) -> None:
    tile = (64, 64, 64) if "producers" in schedule else (64, 64, 32)
    wave = (64, 64) if "producers" in schedule else (32, 32)
    product = Product(
        stages, "whole", schedule, "global" if machine is CPU else "shared", start="32", step=step, tile=tile, wave=wave
    )
    kernel = lower(product.spec, machine)
    for m, n, k in ((50, 40, 264), (3, 5, 8), (17, 1, 0)):
        distance = 2 if step == "2" else max(m // 16, 1)
        at = np.arange(k) // tile[2] - 32 // tile[2]
        a, b = product.operands((m, n, k))
        taken = (at >= 0) & (at % distance == 0)
        random = np.random.default_rng(0)
        a = (random.integers(-3, 4, (m, k)) * taken).astype(np.float16)
        report = simulate(kernel, machine, {"a": a, "b": b}, {"M": m, "N": n, "K": k})
        assert report.ok, report.render()
        assert (report.tensors["c"] == a.astype(np.float32) @ b.astype(np.float32).T).all()


def test_steps_that_are_left_out_are_not_run() -> None:
    whole, half = (Product(1, "whole", step=step, wave=(64, 64)) for step in ("1", "2"))
    counts = [one.run(NVIDIA, (8, 8, 256))[0].counts["mma"] for one in (whole, half)]
    assert counts[0] == 2 * counts[1]


@pytest.mark.parametrize(("step", "why"), [("0", "this is 0"), ("M // 2", "this may be less"), ("1 - 3", "this is -2")])
def test_a_step_that_goes_nowhere_is_refused(step: str, why: str) -> None:
    with pytest.raises(WavespecError, match=rf"error\[step-below-one\].*{why}"):
        lower(Product(1, "whole", step=step).spec, AMD)
