"""Scans and reductions with statements of their own on this machine's CPU, by every variant."""

from __future__ import annotations

import numpy as np
import pytest

from tests.cpu.test_rows import kernel
from tests.ops import gated
from tests.ops.joinings import Recurrence, tensors
from wavespec.schema import loads
from wavespec.targets.machine import machines


@pytest.mark.parametrize("variant", [machine.variant for machine in machines("cpu")])
@pytest.mark.parametrize(
    "given",
    [Recurrence(tile=(4, 64), wave=(1, 64)), Recurrence(dim="M", tile=(8, 64), wave=(8, 32))],
    ids=["rows", "columns"],
)
def test_recurrences_are_exact(variant: str, given: Recurrence) -> None:
    inputs = given.inputs((37, 201))
    for found, right in zip(kernel(given.spec, variant)(*tensors(inputs)), given.expected(inputs), strict=True):
        np.testing.assert_array_equal(found.numpy(), right)


@pytest.mark.parametrize("reverse", [False, True])
def test_rows_at_once_and_their_ends(*, reverse: bool) -> None:
    given = Recurrence(dtype="i64", reverse=reverse)
    inputs = given.inputs((9, 64))
    for found, right in zip(kernel(given.whole)(*tensors(inputs)), given.expected(inputs), strict=True):
        np.testing.assert_array_equal(found.numpy(), right)


@pytest.mark.parametrize("sizes", [(2, 100, 70), (1, 1, 1), (3, 0, 5)], ids=str)
def test_a_gated_linear_recurrence(sizes: tuple[int, int, int]) -> None:
    given = gated.inputs(*sizes)
    gated.check(kernel(loads(gated.SPEC))(*given), given)
