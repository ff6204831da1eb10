"""Index expressions with quotients and remainders go in; the same numbers, said with fewer of them, come out."""

from __future__ import annotations

from functools import lru_cache

from wavespec.ir.expr import Expr, const, loose_part, rebuilt, total


def joined(high: Expr, low: Expr, base: Expr) -> Expr:
    """``high · base + low``; what was taken apart into quotient and remainder is whole again."""
    if low.kind == "mod" and low.args[1] is base and high is low.args[0] // base:
        return low.args[0]
    return high * base + low


@lru_cache(maxsize=1 << 12)
def settled(expr: Expr) -> Expr:
    """The same, with what never carries into a quotient by a number left out of it: ``(8·x + 3) // 16`` as
    ``8·x // 16``, and the remainder as ``8·x % 16 + 3``."""
    if expr.kind in ("const", "symbol"):
        return expr
    if expr.kind == "sum":
        return total([(const(expr.args[0]), 1), *((settled(term), by) for by, term in expr.args[1])])
    args = tuple(map(settled, expr.args))
    if expr.kind not in ("floordiv", "mod") or not args[1].is_const:
        return rebuilt(expr.kind, args)
    left, right = args
    loose = loose_part(left, right)
    return (left - loose) // right if expr.kind == "floordiv" else (left - loose) % right + loose
