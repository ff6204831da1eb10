"""The number next to another in its own type, on this machine's CPU."""

from __future__ import annotations

import pytest

from tests.ops.neighbours import TORCH, check, pairs, spec
from wavespec.pipeline import best_variant, build
from wavespec.runtime.kernel import Kernel
from wavespec.sim.reference import reference


@pytest.mark.parametrize("dtype", TORCH)
def test_neighbours_are_those_of_the_type(dtype: str) -> None:
    made, given = spec(dtype), pairs(dtype)
    check(dtype, Kernel(build(made, "cpu", only=best_variant("cpu")))(*given))
    check(dtype, reference(made, *given).to(TORCH[dtype]))
