"""Members of the family `linear` as machine code for CDNA: with the bias, and without its argument."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from tests.amd.amd_gemms import require_emulator
from tests.amd.emulated import emulated
from tests.families.linear import ACTIVATIONS, TYPES, arguments, check, family
from wavespec.schema import KernelSpec

require_emulator()
pytestmark = pytest.mark.amd
EVERY = [(activation, bias, dtype) for activation in ACTIVATIONS for bias in ("plain", "bias") for dtype in TYPES]
QUICK = [("none", "plain", "f16"), ("silu", "bias", "bf16")]


@dataclass(frozen=True, slots=True)
class Case:
    """A member on a target."""

    target: str
    member: str
    dtype: str
    tile: tuple[int, int, int] = (1, 1, 1)

    @property
    def spec(self) -> KernelSpec:
        return family("linear").member(self.member).spec


@pytest.mark.parametrize(
    ("activation", "bias", "dtype"),
    [pytest.param(*one, marks=[] if one in QUICK else pytest.mark.rare) for one in EVERY],
)
@pytest.mark.parametrize("target", ["gfx942", "gfx950"])
def test_machine_code_of_a_member(target: str, activation: str, bias: str, dtype: str) -> None:
    case = Case(target, f"ACTIVATION={activation},BIAS={bias},T={dtype}", dtype)
    given = arguments(TYPES[dtype], (70,), 37, 72)[: 3 if bias == "bias" else 2]
    held = emulated(case, {"M": 70, "N": 37, "K": 72}, given)
    check(held["y"], activation, *given)
