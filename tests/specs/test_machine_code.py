"""Kernels of the trial as machine code for CDNA, executed by an emulator of the instruction set."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from tests.amd.amd_gemms import require_emulator
from tests.amd.emulated import emulated
from tests.specs.trials import TRIALS, Trial

if TYPE_CHECKING:
    from wavespec.schema import KernelSpec

require_emulator()
pytestmark = [pytest.mark.amd, pytest.mark.compiles, pytest.mark.rare]


_LONG = ("gated_linear_attention_chunks", "sample_top_p")
"""A minute and more to execute: on one machine."""


@dataclass(frozen=True, slots=True)
class Subject:
    """The kernel of a trial on a machine."""

    target: str
    trial: Trial
    dtype: str = ""
    tile: tuple[int, int, int] = (1, 1, 1)

    @property
    def spec(self) -> KernelSpec:
        return self.trial.for_target(self.target)


@pytest.mark.parametrize(
    ("target", "trial"),
    [
        pytest.param(target, trial, id=f"{target}-{trial.name}")
        for target in ("gfx942", "gfx950")
        for trial in TRIALS
        if target == "gfx942" or trial.name not in _LONG
    ],
)
def test_machine_code_is_right(target: str, trial: Trial) -> None:
    sizes = {name: trial.sizes[name] for name in trial.spec.dims} | trial.numbers_of_views
    found = emulated(Subject(target, trial), sizes, trial.inputs, trial.numbers)
    trial.check([found[name] for name in trial.written])
