"""Index expressions in, what all lanes have of them, and what they are never below, out."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, reduce
from operator import mul

from wavespec.emit.indices import is_natural
from wavespec.ir.expr import Expr, const, total


# Accesses of a tile share their checks.
@lru_cache(maxsize=1 << 12)
def uniform_and_varying(expr: Expr, varying: frozenset[str]) -> tuple[Expr, Expr]:
    """Split a sum into what is the same for all lanes and what is not; ``varying`` names the symbols that differ.

    Products are multiplied out where that separates the two: ``(wg·128 + lane)·K`` becomes ``wg·128·K`` and ``lane·K``.
    """
    uniform, lane = [(const(expr.constant_part()), 1)], list[tuple[Expr, int]]()
    for coefficient, term in expr.terms():
        if term.symbols.isdisjoint(varying):
            uniform.append((term, coefficient))
        elif term.kind == "product":
            same, different = const(coefficient), const(0)
            for factor in term.args:
                a, b = uniform_and_varying(factor, varying) if factor.symbols & varying else (factor, const(0))
                same, different = same * a, different * (a + b) + same * b
            uniform.append((same, 1))
            lane.append((different, 1))
        else:
            lane.append((term, coefficient))
    return total(uniform), total(lane)


def _multiplied_out(factors: Sequence[Expr], varying: frozenset[str]) -> list[Expr]:
    """The products that a product with a sum adds up; none where more varies than the terms of one sum."""
    found = [one for one in factors if one.symbols & varying]
    if len(found) != 1 or found[0].kind != "sum":
        return []
    others = [one for one in factors if one is not found[0]]
    terms = [const(found[0].constant_part()), *(term * coefficient for coefficient, term in found[0].terms())]
    return [reduce(mul, others, term) for term in terms]


def lower_bound(expr: Expr, varying: frozenset[str]) -> Expr | None:
    """What a sum is never below, whatever the ``varying`` symbols in it are; None where that is not known."""
    least = const(expr.constant_part())
    for coefficient, term in expr.terms():
        if not term.symbols & varying:
            least = least + term * coefficient
            continue
        factors = term.args if term.kind == "product" else (term,)
        if not is_natural(factors):
            parts = [lower_bound(part * coefficient, varying) for part in _multiplied_out(factors, varying)]
            if not parts or any(part is None for part in parts):
                return None
            least = sum((part for part in parts if part is not None), least)
            continue
        largest = const(coefficient)
        for factor in factors if coefficient < 0 else ():
            if factor.symbols & varying and factor.high is None:
                return None
            largest = largest * (const(factor.high) if factor.symbols & varying else factor)
        least = least + largest if coefficient < 0 else least
    return least
