"""Index arithmetic in MLIR means what the expression means, for negative numbers too."""

from __future__ import annotations

import operator
import re

import pytest

from wavespec.emit.indices import Indices
from wavespec.emit.mlir_text import MlirText
from wavespec.emit.uniform_parts import lower_bound
from wavespec.ir.expr import Expr, const, minimum, symbol

OPERATIONS = {
    "addi": lambda a, b: a + b,
    "subi": lambda a, b: a - b,
    "muli": lambda a, b: a * b,
    "andi": lambda a, b: a & b,
    "floordivsi": lambda a, b: a // b,
    "divui": lambda a, b: a % 2**32 // b,
    "remui": lambda a, b: a % 2**32 % b,
    "minsi": min,
    "shrui": lambda a, b: a % 2**32 >> b,
    "shrsi": lambda a, b: a >> b,
}


def computed(expr: Expr, x: int) -> int:
    """The emitted operations, run for one value of ``x``."""
    text = MlirText()
    indices = Indices(text)
    indices.define("x", "%x", 32)
    result, values = indices.integer(expr), {"%x": x}
    for line in text.lines():
        if constant := re.match(r"(%\w+) = arith.constant (-?\d+) : i32", line):
            values[constant[1]] = int(constant[2])
            continue
        name, operation, left, right = re.findall(r"%?\w+", line.replace("arith.", ""))[:4]
        values[name] = OPERATIONS[operation](values[left], values[right])
    return values[result]


@pytest.mark.parametrize("low", [-12, 0])
@pytest.mark.parametrize("divisor", [3, 4])
def test_division_and_remainder_round_towards_minus_infinity(low: int, divisor: int) -> None:
    x = symbol("x", low, 12)
    for value in range(low, 13):
        assert computed(x % divisor, value) == value % divisor
        assert computed(x // divisor, value) == value // divisor
        assert computed(x % (minimum(x, 0) + divisor + 12), value) == value % (min(value, 0) + divisor + 12)


def test_widths_are_those_of_the_parts() -> None:
    """A quotient of numbers that fit 32 bits is computed in 32, whatever the numbers are made of."""
    m, n, x = symbol("M", 1, 2**31 - 1), symbol("N", 1, 2**31 - 1), symbol("x", 0, 2**31 - 1)
    text = MlirText()
    indices = Indices(text)
    for name in ("M", "N", "x"):
        indices.define(name, f"%{name}", 32)
    groups = minimum((m + 127) // 128 * n, const(132))
    indices.integer(x // groups * 4, 64)
    lines = "\n".join(text.lines())
    assert re.search(r"arith.muli .* : i64", lines) and re.search(r"arith.minsi .* : i64", lines)
    assert re.findall(r"arith.divui .* : (i\d+)", lines) == ["i32"]


def test_symbols_of_a_block_end_with_it() -> None:
    text = MlirText()
    indices = Indices(text)
    indices.define("x", "%outer", 32)
    text.open()
    indices.open()
    indices.define("x", "%inner", 32)
    assert indices.integer(symbol("x", 0, 9)) == "%inner"
    indices.close()
    text.close()
    assert indices.integer(symbol("x", 0, 9)) == "%outer"


def test_ends_are_compared_as_one_distance_where_they_are_asked_for() -> None:
    """Places that differ by a number share a sum, whose copy stands in the block that compares."""
    text = MlirText()
    indices = Indices(text)
    indices.hide = lambda name: text.op(f"copy {name}")
    for name in ("x", "N"):
        indices.define(name, f"%{name}", 32)
    x, n = symbol("x", 0, 999), symbol("N", 0, 999)
    outside = indices.holds(((x, n),))
    text.open()
    indices.open()
    inside = [indices.holds(((x + number, n),)) for number in (0, 1, 1)]
    indices.close()
    block = text.close()
    assert outside not in inside and inside[1] == inside[2]
    assert re.findall("copy|cmpi|subi|addi", "\n".join(block)) == ["copy", "cmpi", "cmpi"]


def test_lower_bound_is_reached_whatever_varies() -> None:
    n, lane, row = symbol("N", 0, 2**31 - 1), symbol("lane", 0, 63), symbol("row", 0, 3)
    varying = frozenset(("lane", "row"))
    assert lower_bound(lane * 4 - row * n - n + 7, varying) == n * -4 + 7
    assert lower_bound(lane * n - 5, varying) == const(-5)
    assert lower_bound(n * (lane - row * 2 - 1), varying) == n * -7, "of what is multiplied by a size, each for itself"
    assert lower_bound(symbol("any") * -1, frozenset(("any",))) is None
    assert lower_bound((lane - 1) * n * row, varying) is None


@pytest.mark.parametrize(("present", "guards"), [({}, 1), ({"n": symbol("n", 1, 100)}, 0)])
def test_what_may_be_empty_divides_as_one_at_least(present: dict[str, Expr], guards: int) -> None:
    text = MlirText()
    indices = Indices(text, present=present)
    for name in "xn":
        indices.define(name, f"%{name}", 32)
    tiles = (symbol("n", 0, 100) + 15) // 16
    indices.integer(symbol("x", 0, 100) // tiles)
    assert sum("maxsi" in line for line in text.lines()) == guards


def divided(kind: str, number: int, size: int, least: int) -> int:
    """A digit of a number by a size that stays in a loop, as its operations make it."""
    text, words = MlirText(), {"%x": number, "%d": size}
    indices = Indices(text, 64)
    indices.reciprocals = True
    indices.define("d", "%d", 64)
    text.open()
    indices.open()
    indices.define("x", "%x", 64)
    x, d = symbol("x", 0, 2**31 - 1), symbol("d", least, 2**31 - 1)
    result = indices.integer(x // d if kind == "quotient" else x % d)
    inside = [*text.blocks[-1]]
    text.close()
    for line in (one.removesuffix(" loc(unknown)") for one in (*text.lines(), *inside)):
        if constant := re.search(r"(%\w+) = arith.constant (-?\d+) : i(\d+)", line):
            words[constant[1]] = int(constant[2]) % 2 ** int(constant[3])
            continue
        name, verb, *rest = re.findall(r"%?\w+", line.replace("arith.", ""))
        bits = int(re.findall(r"i(\d+)$", line)[0])
        if verb in ("extui", "trunci"):
            words[name] = words[rest[0]] % 2**bits
            continue
        left, right = (words[one] for one in rest[:2])
        both = {"divui": operator.floordiv, "shli": operator.lshift, "shrui": operator.rshift}
        words[name] = {**OPERATIONS, **both, "maxsi": max}[verb](left, right) % 2**bits
        assert verb != "divui" or left >= 2**63 - 1, "only the reciprocal is a division"
    return words[result]


@pytest.mark.parametrize("kind", ["quotient", "rest"])
@pytest.mark.parametrize("least", [1, 2])
def test_quotients_by_a_size_are_exact_products(kind: str, least: int) -> None:
    for size in (least, 2, 3, 7, 2**16 - 1, 2**16, 10**9 + 7, 2**31 - 1):
        for number in (0, 1, size - 1, size, 2 * size - 1, 2**31 - 1 - (2**31 - 1) % size, 2**31 - 2, 2**31 - 1):
            if number < 2**31:
                expected = number // size if kind == "quotient" else number % size
                assert divided(kind, number, size, least) == expected, (number, size)
