"""Elements side by side in one access: what is checked of them, and of which the first or the last may be missing."""

from __future__ import annotations

import pytest

from wavespec.ir.dtype import DTYPES
from wavespec.ir.expr import Expr, const, symbol
from wavespec.ir.kernel import Memory
from wavespec.ops.mapped_pieces import MappedElement, MappedPiece, in_one_access
from wavespec.targets.machine import machines

(AMX,) = machines("cpu:x86_64_amx")
X = Memory("x", DTYPES["bf16"], ("N",), (symbol("N", 1, 4096),), "global", role="input")
ROW = symbol("row", 0, 4095)


def piece(*checks: tuple[Expr, Expr]) -> MappedPiece | None:
    return in_one_access(X, [MappedElement(ROW + at, (pair,)) for at, pair in enumerate(checks)], 0, AMX)


def test_a_check_that_begins_below_0_is_one_of_the_end() -> None:
    found = piece(*((const(at - 1), const(1)) for at in range(4)))
    assert found is not None
    assert (found.mask, found.front, found.valid) == ((), None, const(2))


@pytest.mark.parametrize("width", [2, 4])
def test_the_first_elements_may_be_missing(width: int) -> None:
    found = piece(*((const(-1), ROW + (at - 3)) for at in range(width)))
    assert found is not None
    assert (found.mask, found.front, found.valid) == ((), 3 - ROW, None)
