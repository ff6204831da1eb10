"""Kernels whose shapes have expressions, on this machine's CPU: what they compute, and calls that do not fit."""

from __future__ import annotations

import pytest
import torch

from tests.cpu.test_rows import kernel
from tests.ops.sizes_in_shapes import SIZES, SPECS, UNPACK, expected, inputs
from wavespec.pipeline import best_variant, build
from wavespec.runtime.checks import ArgumentError
from wavespec.runtime.kernel import Kernel
from wavespec.schema import loads
from wavespec.targets.machine import machines


@pytest.mark.parametrize("variant", [machine.variant for machine in machines("cpu")])
@pytest.mark.parametrize("name", SPECS)
def test_results_are_those_of_torch(variant: str, name: str) -> None:
    run = kernel(loads(SPECS[name]), variant)
    for m, k in SIZES:
        given = inputs(name, m, k)
        for mine, theirs in zip(run(*given), expected(name, given), strict=True):
            torch.testing.assert_close(mine, theirs, rtol=1e-5, atol=1e-5)


def test_a_size_that_does_not_fit_is_told_as_the_shape_has_it() -> None:
    run = Kernel(build(loads(UNPACK), "cpu", only=best_variant("cpu")))
    like, w, starts = inputs("unpack", 8, 64)
    for given, message in (
        ((like, w[:, :31], starts), r"K = 64 make K // 2 = 32, but argument 'w' has K // 2 = 31 in dim 1\."),
        ((like, w, starts[:8]), r"M = 8 make M \+ 1 = 9, but argument 'starts' has M \+ 1 = 8 in dim 0\."),
    ):
        with pytest.raises(ArgumentError, match=message):
            run(*given)
    with pytest.raises(ArgumentError, match=r"argument 'z' has shape .*, expected \[8, 22\] = \[M, ceildiv\(K, 3\)\]"):
        run(like, w, starts, out=(torch.empty(8, 64), torch.empty(8, 21)))
