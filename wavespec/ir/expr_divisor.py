"""A sum of index expressions in, what divides it out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wavespec.ir.expr import Expr


def divisor_of_sum(constant: int, pairs: Sequence[tuple[int, Expr]]) -> int:
    """A divisor of ``constant + Σ coefficient · term``."""
    divisor = math.gcd(constant, *[coefficient * term.divisor for coefficient, term in pairs])
    for _, term in pairs:
        if term.kind == "mod":
            return _divisor_with_rests(constant, pairs, divisor)
    return divisor


def _divisor_with_rests(constant: int, pairs: Sequence[tuple[int, Expr]], known: int) -> int:
    """A divisor of the sum that knows that ``x - x % d`` is a multiple of ``d``: a rest is what it is of, less a
    multiple of ``d``."""
    for coefficient, term in pairs:
        if term.kind != "mod" or not term.args[1].is_const:
            continue
        multiple, of_rest = coefficient * term.args[1].value, term.args[0]
        left = {one: of for of, one in pairs if one is not term}
        if known % multiple == 0 or any(one not in left for _, one in of_rest.terms()):
            continue
        for of, one in of_rest.terms():
            left[one] += coefficient * of
        found = math.gcd(
            multiple, constant + coefficient * of_rest.constant_part(), *(of * one.divisor for one, of in left.items())
        )
        known = math.lcm(known, found)
    return known
