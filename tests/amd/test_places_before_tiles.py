"""Lanes whose places start in front of what their workgroup has, by how much nobody knows, read what is there."""

from __future__ import annotations

import pytest

from tests.amd.amd_gemms import require_emulator
from tests.amd.emulated import emulated
from tests.specs.test_machine_code import Subject
from tests.specs.trials import TRIALS

require_emulator()
pytestmark = [pytest.mark.amd, pytest.mark.compiles]


def test_pixels_in_front_of_a_tile_are_read() -> None:
    """Pixels of a phase start a row and a column in front of those of a tile, by digits of a dim whose size a call
    decides; the offset was taken for a number without a sign, and they for 0."""
    (trial,) = (one for one in TRIALS if one.name == "conv_transpose2d")
    sizes = {name: trial.sizes[name] for name in trial.spec.dims} | trial.numbers_of_views
    found = emulated(Subject("gfx942", trial), sizes, trial.inputs, trial.numbers)
    trial.check([found[name] for name in trial.written])
