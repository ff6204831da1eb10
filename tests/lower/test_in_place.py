"""Tensors that are read and changed in place: what breaks the proof is refused, and races would show."""

from __future__ import annotations

import pytest

from tests.kernels import tensor_to_array
from tests.lower.gemms import AMD, NVIDIA
from tests.ops.in_place import ADAM, NORM, SIZES, inputs
from tests.sim.planted_bugs import altered
from wavespec.diagnostics import WavespecError
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


def test_copies_of_an_element_in_several_lanes_are_refused() -> None:
    message = refused(NORM.replace("value: 256", "value: 24"), AMD)
    assert message == "'x' is changed in place, and several lanes have each element of its tiles (M: 4, N: 24)."


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
