"""Tensors that are read and changed in place: what breaks the proof is refused, and races would show."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from tests.kernels import tensor_to_array
from tests.lower.gemms import AMD, NVIDIA
from tests.ops.in_place import ADAM, NORM, SIZES, inputs
from tests.sim.planted_bugs import altered
from wavespec.diagnostics import WavespecError
from wavespec.ir.nodes import replace
from wavespec.pipeline import lower
from wavespec.schema import loads
from wavespec.sim.simt import simulate
from wavespec.targets.machine import Machine


def refused(text: str, machine: Machine) -> str:
    with pytest.raises(WavespecError) as caught:
        lower(loads(text), machine)
    (found,) = caught.value.diagnostics
    assert found.code == "moved-in-place"
    return found.message


COPIES = NORM.replace("value: 256", "value: 24")
"""Rows of fewer elements than lanes: several of these have each of them."""


@pytest.mark.parametrize("machine", [NVIDIA, AMD], ids=lambda machine: machine.variant)
def test_lanes_with_the_same_elements_read_them_before_one_of_them_writes(machine: Machine) -> None:
    random, kinds = np.random.default_rng(0), {"residual": (5, 24), "weight": (24,), "x": (5, 24)}
    given = {name: random.integers(-9, 10, shape).astype(ml_dtypes.bfloat16) for name, shape in kinds.items()}
    kernel = lower(loads(COPIES), machine)
    (number,) = (at for at, op in enumerate(kernel.body) if op.name == "barrier")
    report = simulate(kernel, machine, given, {"M": 5}, order="reverse")
    assert report.ok
    np.testing.assert_array_equal(report.tensors["x"].astype("f4"), np.add(given["x"], given["residual"], dtype="f4"))
    apart = replace(kernel, body=(*kernel.body[:number], *kernel.body[number + 1 :]))
    report = simulate(apart, machine, given, {"M": 5})
    assert any(finding.kind == "race" for finding in report.findings), "the simulator would have seen it"


@pytest.mark.parametrize("machine", [NVIDIA, AMD], ids=lambda machine: machine.variant)
def test_a_race_of_reads_and_writes_shows(machine: Machine) -> None:
    """The check is what keeps it away: a read of a neighbour's element is seen by the simulator."""
    spec = loads(ADAM)
    names = [name for name, tensor in spec.tensors.items() if tensor.role != "output"]
    given = {name: tensor_to_array(x, spec.tensors[name].dtype) for name, x in zip(names, inputs("adam"), strict=True)}
    kernel = lower(spec, machine)
    assert simulate(kernel, machine, given, SIZES["adam"]).ok
    moved = altered("load", "offset", lambda offset: offset + 4, memory="mean")(kernel)
    report = simulate(moved, machine, given, SIZES["adam"])
    assert any(finding.kind == "race" for finding in report.findings)
