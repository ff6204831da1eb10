"""Sums and products that no number of a call makes wrap."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from wavespec.ir.expr import Expr, const, symbol
from wavespec.ir.saturating import LARGEST, minus, plus, saturated, times

X, Y = (saturated(symbol(name, -(2**63), 2**63 - 1)) for name in "xy")
SIZE, INDEX = (symbol(name, 0, 2**31 - 1) for name in "ni")
ENDS = (0, 1, -1, 7, 2**31, -(2**31), 2**40, 2**58, 2**60 + 1, -LARGEST, LARGEST, LARGEST + 1, -(2**63), 2**63 - 1)
PLACES: tuple[tuple[Expr, Callable[[int, int, int, int], tuple[int, ...]]], ...] = (
    (plus(times(X, const(8)), INDEX), lambda x, y, n, i: (x, 8 * x, 8 * x + i)),
    (times(X, Y), lambda x, y, n, i: (x, y, x * y)),
    (times(INDEX, times(X, SIZE)), lambda x, y, n, i: (x, x * n, i * x * n)),
    (
        plus(plus(times(X, SIZE), times(Y, SIZE)), times(X, const(-3))),
        lambda x, y, n, i: (x, y, x * n, y * n, (x + y) * n, 3 * x, (x + y) * n - 3 * x),
    ),
    (minus(minus(X, Y), minus(Y, X)), lambda x, y, n, i: (x, y, x - y, 2 * (x - y))),
)
"""Of a place the expression, and its parts and itself of the numbers that its symbols stand for."""


@pytest.mark.parametrize(("place", "exact"), PLACES, ids=lambda one: str(one) if isinstance(one, Expr) else "")
def test_no_part_wraps_and_what_is_small_is_exact(place: Expr, exact: Callable[..., tuple[int, ...]]) -> None:
    for x, y, n, i in itertools.product(ENDS, ENDS, (0, 1, 2**31 - 1), (0, 5)):
        numbers = {"x": x, "y": y, "n": n, "i": i}
        for node in place.walk():
            assert -(2**63) <= node.evaluate(numbers) < 2**63, (str(node), numbers)
        *parts, result = exact(x, y, n, i)
        if all(abs(part) <= LARGEST for part in (*parts, result)):
            assert place.evaluate(numbers) == result, numbers


def test_what_cannot_wrap_is_as_it_was() -> None:
    assert times(INDEX, SIZE) is INDEX * SIZE
    assert plus(X, INDEX) is X + INDEX
    assert minus(X, Y) is X - Y
