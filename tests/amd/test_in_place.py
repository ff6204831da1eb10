"""Kernels that read what they change as machine code, executed by an emulator of the instruction set, which sees races."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from tests.amd.amd_gemms import require_emulator
from tests.amd.emulated import emulated
from tests.ops.in_place import SIZES, SPECS, check, inputs
from wavespec.schema import KernelSpec, loads

require_emulator()
pytestmark = pytest.mark.amd


@dataclass(frozen=True, slots=True)
class Subject:
    """A kernel on a machine."""

    target: str
    name: str
    dtype: str = "bf16"
    tile: tuple[int, int, int] = (1, 1, 1)

    @property
    def spec(self) -> KernelSpec:
        return loads(SPECS[self.name])


@pytest.mark.parametrize("target", ["gfx942", "gfx950"])
@pytest.mark.parametrize("name", SPECS)
def test_arguments_become_what_the_old_ones_say(target: str, name: str) -> None:
    given = inputs(name)
    check(name, emulated(Subject(target, name), SIZES[name], [x.clone() for x in given]), given)
