"""Kernels with scalars as machine code for CDNA, whose push constants have their words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from tests.amd.amd_gemms import require_emulator
from tests.amd.emulated import emulated
from tests.ops.scalars import CALLS, Called
from tests.rungs import often
from wavespec.schema.cases import case_for_sizes, cases_for_target

if TYPE_CHECKING:
    from wavespec.schema import KernelSpec

require_emulator()
pytestmark = pytest.mark.amd
EACH = [(target, call) for target in ("gfx942", "gfx950") for call in CALLS]


@dataclass(frozen=True, slots=True)
class Case:
    """The kernel of a call on a machine."""

    target: str
    text: str
    name: str
    dtype: str = ""
    tile: tuple[int, int, int] = (1, 1, 1)

    @property
    def call(self) -> Called:
        return CALLS[self.name]

    @property
    def spec(self) -> KernelSpec:
        return case_for_sizes(cases_for_target(self.call.spec, self.target), self.call.every_size).spec


@pytest.mark.parametrize(("target", "name"), often(EACH, [("gfx942", "addmm of both"), ("gfx950", "attention of few")]))
def test_machine_code_has_the_numbers_of_the_call(target: str, name: str) -> None:
    call = CALLS[name]
    held = emulated(Case(target, call.text, name), call.every_size, call.inputs(), call.scalars)
    call.check([held[name] for name, tensor in call.spec.tensors.items() if tensor.role == "output"])
