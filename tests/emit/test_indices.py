"""Index arithmetic in MLIR means what the expression means, for negative numbers too."""

from __future__ import annotations

import re

import pytest

from wavespec.emit.indices import Indices
from wavespec.emit.mlir_text import MlirText
from wavespec.ir.expr import Expr, symbol

OPERATIONS = {
    "addi": lambda a, b: a + b,
    "subi": lambda a, b: a - b,
    "muli": lambda a, b: a * b,
    "andi": lambda a, b: a & b,
    "floordivsi": lambda a, b: a // b,
    "divui": lambda a, b: a % 2**32 // b,
    "remui": lambda a, b: a % 2**32 % b,
    "shrui": lambda a, b: a % 2**32 >> b,
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
