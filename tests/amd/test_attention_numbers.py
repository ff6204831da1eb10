"""Windows, caps and scales of calls of attention, as machine code of CDNA."""

from __future__ import annotations

import pytest
import torch

from tests.amd.amd_gemms import require_emulator
from tests.amd.emulated import Case, emulated
from tests.kernels import check_error, subjects
from wavespec.sim.reference import reference

require_emulator()
pytestmark = pytest.mark.amd

SUBJECTS = {subject.name: subject for subject in subjects("gfx942", "gfx950")}
MASKED = {"B": 1, "H": 1, "M": 70, "N": 200, "D": 24, "E": 24}
PAGED = {"B": 2, "H": 1, "M": 3, "P": 9, "T": 8, "L": 4, "N": 32, "D": 24, "E": 24}


@pytest.mark.parametrize("target", ["gfx942", pytest.param("gfx950", marks=pytest.mark.rare)])
@pytest.mark.parametrize(
    ("name", "sizes", "numbers", "number"),
    [
        ("attention_masked_window", MASKED, {"window": 150}, 0),
        ("attention_masked_window", MASKED, {"window": 2**31 - 1}, 0),
        ("attention_masked_window", MASKED, {"window": 5}, 2),
        ("attention_masked_soft_cap", MASKED, {"soft_cap": 0.5}, 0),
        ("attention_paged", PAGED, {"scale": 3.0}, 0),
    ],
)
def test_numbers_of_a_call(
    name: str, sizes: dict[str, int], numbers: dict[str, float], number: int, target: str
) -> None:
    subject = SUBJECTS[name]
    whole = {key: value for key, value in numbers.items() if isinstance(value, int)}
    case = Case(subject, target, subject.case(target, {**subject.complete(sizes), **whole}))
    assert case.number == number, "a window that is longer than a tile has a plan of its own"
    inputs = subject.inputs(sizes)
    found = emulated(case, {**subject.complete(sizes), **whole}, inputs, numbers)["o"]
    exact, own = (reference(subject.spec, *inputs, compute=of, **numbers) for of in (torch.float64, None))
    check_error(f"{name} {numbers}", found, exact, own)
