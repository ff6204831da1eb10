"""Every matrix instruction of a machine with a table of resources has a rate: costs and passes look it up."""

import pytest

from wavespec.targets import TARGETS, Machine, machines

MACHINES = [one for target in TARGETS for one in machines(target) if one.resources is not None]


@pytest.mark.parametrize("machine", MACHINES, ids=lambda machine: machine.variant)
def test_matrix_instructions_have_a_rate(machine: Machine) -> None:
    assert machine.resources is not None
    types = {row.a.dtype.name for row in machine.instructions}
    assert types - set(machine.resources.macs_per_clock) == set()
