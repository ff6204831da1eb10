"""Scans with statements of their own as machine code, executed by an emulator of the instruction set."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from tests.amd.amd_gemms import require_emulator
from tests.amd.emulated import emulated
from tests.ops import gated
from tests.ops.joinings import Recurrence, tensors
from wavespec.schema import KernelSpec, loads

require_emulator()
pytestmark = pytest.mark.amd


@dataclass(frozen=True, slots=True)
class Subject:
    """A recurrence on a machine; without one that of gates."""

    target: str
    given: Recurrence | None = None
    dtype: str = "f32"
    tile: tuple[int, int, int] = (1, 1, 1)

    @property
    def spec(self) -> KernelSpec:
        return self.given.spec if self.given else loads(gated.SPEC)


@pytest.mark.parametrize("target", ["gfx942", "gfx950"])
@pytest.mark.parametrize("given", [Recurrence(), Recurrence(tile=(2, 512), wave=(1, 128))], ids=["lanes", "waves"])
def test_recurrences_are_exact(target: str, given: Recurrence) -> None:
    inputs = given.inputs((5, 700))
    found = emulated(Subject(target, given), {"M": 5, "N": 700}, tensors(inputs))
    for name, right in zip(("y", "end"), given.expected(inputs), strict=True):
        np.testing.assert_array_equal(found[name].numpy(), right)


@pytest.mark.parametrize("target", ["gfx942", "gfx950"])
def test_a_gated_linear_recurrence(target: str) -> None:
    given = gated.inputs(2, 37, 70)
    found = emulated(Subject(target), {"B": 2, "T": 37, "D": 70}, given)
    gated.check((found["y"], found["after"]), given)
