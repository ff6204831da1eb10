"""Index expressions by example: what disappears, what is proved, what is refused, and stable text."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import sympy

from wavespec.ir.expr import Expr, at_most, ceildiv, const, less, maximum, minimum, symbol
from wavespec.ir.expr_parser import parse_expr
from wavespec.ir.expr_sympy import from_sympy, to_sympy
from wavespec.ir.quotients import joined, settled
from wavespec.ir.tokens import IRSyntaxError

LANE = symbol("lane", 0, 63)
STEP = symbol("step", 0, 100)
K = symbol("K", 0, 4096, 8)
M = symbol("M", 1, None)


@pytest.mark.parametrize(
    ("built", "text"),
    [
        (LANE % 64, "lane"),
        (LANE // 64, "0"),
        (K % 8, "0"),
        (K * STEP % 8, "0"),
        ((STEP * 64 + LANE) % 64, "lane"),
        ((STEP * 64 + LANE) // 64, "step"),
        ((STEP * 64 + LANE) // 16, "step*4 + lane//16"),
        (LANE // 4 // 8, "lane//32"),
        (LANE % 32 // 4, "(lane//4)%8"),
        (LANE % 32 % 8, "lane%8"),
        ((LANE * 4 + 2) // 8, "lane//2"),
        (LANE * 4 % 32, "(lane%8)*4"),
        (LANE - LANE, "0"),
        (LANE ^ LANE, "0"),
        (LANE ^ 0, "lane"),
        (LANE ^ K ^ STEP ^ K, "xor(lane, step)"),
        (LANE ^ (STEP ^ LANE), "step"),
        ((LANE // 16 + 4) ^ (LANE % 8), "xor(xor(lane//16, lane%8), 4)"),
        ((LANE // 16 + 4) ^ (LANE % 8 * 8 + 1), "xor(lane//16, (lane%8)*8 + 1) + 4"),
        ((LANE // 16 + 28) ^ (LANE % 16) ^ 4, "xor(xor(lane//16, lane%16), 8) + 16"),
        ((LANE // 16 * 8 + 5) ^ (LANE % 8 * 16), "xor((lane//16)*8, (lane%8)*16) + 5"),
        (STEP ^ 6, "xor(step, 6)"),
        (minimum(LANE, 64), "lane"),
        (maximum(LANE, 64), "64"),
        (minimum(LANE, LANE + STEP), "lane"),
        (M // M, "1"),
        (M % M, "0"),
        (ceildiv(K, 8), "K//8"),
        (ceildiv(LANE, 8), "(lane + 7)//8"),
        (2 - LANE, "0 - lane + 2"),
        ((LANE + 1) * (STEP + 2), "step + lane*2 + lane*step + 2"),
    ],
)
def test_normal_form(built: Expr, text: str) -> None:
    assert parse_expr(text, {"lane": LANE, "step": STEP, "K": K, "M": M}) is built
    assert built.evaluate({"lane": 37, "step": 5, "K": 24, "M": 9}) == _python(text)


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [(LANE + 3, LANE - 1, 4), (LANE, LANE, 0), (const(2), const(5), -3), (LANE, STEP, None)],
)
def test_how_far_one_is_beyond_the_other(one: Expr, other: Expr, expected: int | None) -> None:
    assert one.beyond(other) == expected


def _python(text: str) -> int:
    """The value of the text at one point, by the parser's own reading of numbers."""
    return parse_expr(text, {"lane": const(37), "step": const(5), "K": const(24), "M": const(9)}).value


def test_ranges_prove_bounds() -> None:
    assert less(LANE + STEP * 64, const(101 * 64))
    assert not less(LANE + STEP * 64, const(101 * 64 - 1))
    assert at_most(LANE, LANE + STEP)
    assert not at_most(LANE, STEP)
    assert not less(M, M + STEP) and at_most(M, M + STEP)


def test_refused() -> None:
    for bad in (0, -4):
        with pytest.raises(ValueError, match=f"by {bad}"):
            LANE // bad
        with pytest.raises(ValueError, match=f"by {bad}"):
            LANE % bad
    with pytest.raises(ValueError, match="not a constant"):
        _ = LANE.value
    with pytest.raises(IRSyntaxError, match="known symbol"):
        parse_expr("lane + other", {"lane": LANE})
    for text in ("lane +", "lane lane", "(lane", "min(lane)", "$"):
        with pytest.raises(IRSyntaxError):
            parse_expr(text, {"lane": LANE})


def test_sympy_forms() -> None:
    symbols = {"lane": LANE, "M": M}
    lane, m = to_sympy(LANE), to_sympy(M)
    assert from_sympy(sympy.ceiling(lane / 8), symbols).evaluate({"lane": 9}) == 2
    assert from_sympy(lane**2 + 1, symbols) is LANE * LANE + 1
    assert from_sympy(sympy.floor((lane + m) / m), symbols).evaluate({"lane": 9, "M": 4}) == 3
    assert from_sympy(to_sympy(LANE ^ M), symbols) is LANE ^ M
    assert to_sympy(LANE ^ M).subs({lane: 5, m: 3}) == 6
    assert (m > 0) == sympy.true
    for bad in (lane / 2, sympy.sin(lane), sympy.Rational(1, 2), 1 / m):
        with pytest.raises(ValueError):
            from_sympy(bad, symbols)
    with pytest.raises(KeyError):
        from_sympy(sympy.Symbol("other"), symbols)


PROGRAM = """
from wavespec.ir.expr import symbol, minimum, maximum
s = [symbol(name, 0, 1000) for name in ("wave", "lane", "step", "K", "M", "a", "b", "zeta")]
total = s[0]
for i, x in enumerate(s):
    for j, y in enumerate(reversed(s)):
        total = total + minimum(x * y, (x ^ y) + i) % 7 - maximum(x // 3, y) * j + (x * 5 + y) // (i + 2)
print(total)
"""


def test_text_does_not_depend_on_hashing() -> None:
    texts = {
        subprocess.run(
            [sys.executable, "-c", PROGRAM],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("0", "1", "77")
    }
    assert len(texts) == 1 and len(texts.pop()) > 1000


def test_a_quotient_is_no_farther_from_zero_than_what_is_divided() -> None:
    steps = symbol("steps", 1, None)
    for low, high, bounds in ((-5, 9, (-5, 9)), (0, 9, (0, 9)), (3, 9, (0, 9)), (-9, -2, (-9, -1))):
        quotient = symbol("x", low, high) // steps
        assert (quotient.low, quotient.high) == bounds


def test_what_is_left_of_a_rest_is_a_multiple() -> None:
    x, y = symbol("x", 0, 1 << 40), symbol("y", 0, 1 << 40)
    assert (x * y - x * y % 8).divisor == 8
    assert (5 * x + 12 - (x + 4) % 4 + 8 * y).divisor == 4
    assert (2 * x - x % 8).divisor == 1


def test_multiples_leave_a_quotient_whose_rest_never_carries() -> None:
    at, lane = symbol("at", 0, 960, 32), symbol("lane", 0, 31)
    assert (at + lane // 16 + 6) // 16 == at // 16
    assert (at + lane // 16 + 22) // 16 == at // 16 + 1
    assert (at + lane) // 16 != at // 16
    pages = symbol("pages", 32, None, 32)
    assert (at + lane) // pages == at // pages
    assert (at + lane) % pages == at % pages + lane
    books = symbol("books", 64, None, 64)
    assert (at + lane) // books == at // books
    assert (at + lane) % books == at % books + lane
    assert (at + 2 * lane) // books != at // books


def test_quotient_and_remainder_of_one_number_are_that_number() -> None:
    x, base = symbol("x"), symbol("base", 1)
    assert joined(x // base, x % base, base) is x
    assert joined(x // base + 1, x % base, base) is base + x
    assert joined(x // base, x % base + 1, base) is x + 1


def test_what_never_carries_is_left_out_of_quotients_by_numbers() -> None:
    at, step = symbol("at", 0, None, 576), symbol("step", 0, 544, 32)
    inner = (at + step + 5) // 64 % 3
    assert settled(inner) == (at + step) // 64 % 3
    assert settled((at + step + 5) % 64 + 2) == (at + step) % 64 + 7
    assert settled((at + step + 35) // 64) == (at + step + 32) // 64
    for number in range(0, 2048, 7):
        known = {"at": number // 576 * 576, "step": number % 576 // 32 * 32}
        assert settled(inner).evaluate(known) == inner.evaluate(known)
