"""`atomic` as machine code, executed by an emulator of the instruction set: old values are those of some order."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from tests.amd.amd_gemms import require_emulator
from tests.amd.emulated import emulated
from tests.ops.combined import Combined, expected
from tests.ops.combined import inputs_of as inputs_of_combined
from tests.ops.old_values import WORKGROUPS, OldValues, assert_explained, inputs_of
from wavespec.schema import KernelSpec
from wavespec.schema.resolved import computation_of

require_emulator()
pytestmark = pytest.mark.amd

SIZES = {"M": 11, "N": 20, "V": 4}  # what is added to in 16 bits is whole words, which compare and swap
CASES = [OldValues(combine) for combine in ("add", "max", "and", "or", "xor", "exchange", "compare_and_swap")]
CASES += [OldValues("compare_and_swap", "i64"), OldValues("exchange", "f32"), OldValues("xor", "i64")]
CASES += [OldValues("add", dtype) for dtype in ("bf16", "f16", "f32")]
CASES += [OldValues("add", "i32", workgroups) for workgroups in WORKGROUPS.values()]


@dataclass(frozen=True, slots=True)
class Subject:
    """A kernel on a machine."""

    target: str
    case: OldValues | Combined
    dtype: str = "bf16"
    tile: tuple[int, int, int] = (1, 1, 1)

    @property
    def spec(self) -> KernelSpec:
        return self.case.observed.spec if isinstance(self.case, OldValues) else self.case.spec


@pytest.mark.parametrize("target", ["gfx942", "gfx950"])
@pytest.mark.parametrize("case", CASES, ids=str)
def test_some_order_finds_all_old_values(target: str, case: OldValues) -> None:
    observed = case.observed
    given = inputs_of(observed.spec, SIZES)
    held = emulated(Subject(target, case), {**SIZES, "P": 40}, [one.clone() for one in given])
    assert_explained(observed, given, [held[name] for name in computation_of(observed.spec).written])


@pytest.mark.parametrize("target", ["gfx942", "gfx950"])
@pytest.mark.parametrize("case", [Combined("or", "i64"), Combined("xor", "i32")], ids=str)
def test_every_element_is_combined(target: str, case: Combined) -> None:
    sizes = {"M": 5, "N": 7, "V": 2}
    given = inputs_of_combined(case.spec, sizes)
    held = emulated(Subject(target, case), {**sizes, "O": 1}, [one.clone() for one in given])
    for name, exact in zip(computation_of(case.spec).written, expected(case.spec, given), strict=True):
        assert held[name].equal(exact), name
