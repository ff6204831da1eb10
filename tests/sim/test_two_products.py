"""Two products of one operand in a step, in every plan of `linear_swiglu` for Hopper: no race, and right sums."""

from __future__ import annotations

import pytest

from tests.kernels import subjects
from tests.sim.cases import lowered_case, run_case
from wavespec.targets.machine import machines

(HOPPER,) = machines("sm_90")
SWIGLU = next(subject for subject in subjects("sm_90") if subject.name == "linear_swiglu")


@pytest.mark.parametrize("number", range(len(SWIGLU.cases("sm_90"))))
def test_both_are_right_in_every_case(number: int) -> None:
    """Whatever the case is for: more rows than a tile has where it takes them."""
    case = SWIGLU.cases("sm_90")[number]
    most = case.spec.dims["M"].max
    sizes = SWIGLU.complete({"M": 70 if most is None else 13, "N": 136, "K": 136})
    inputs = SWIGLU.inputs(sizes)
    SWIGLU.check(inputs, run_case(SWIGLU, case, lowered_case(case, HOPPER), HOPPER, sizes, inputs), sizes)
