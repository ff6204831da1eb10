"""Index expressions with quotients and remainders go in; the same numbers, said with fewer of them, come out."""

from __future__ import annotations

from functools import lru_cache, reduce

from wavespec.ir.expr import Expr, const, loose_part, rebuilt, total


@lru_cache(maxsize=1 << 13)  # elements of one row have all but the last of these in common
def joined(high: Expr, low: Expr, base: Expr) -> Expr:
    """``high · base + low``; what was taken apart into quotient and remainder is whole again, also where something is
    added to both: ``(h + x // b) · b + l + x % b`` is ``h · b + l + x``."""
    quotients = [term for by, term in high.terms() if by == 1 and term.kind == "floordiv"]
    for by, remainder in low.terms():
        if by == 1 and remainder.kind == "mod" and remainder.args[1] is base:
            for quotient in quotients:
                whole = _divided_later(quotient, base)
                if whole is not None and whole % base is remainder:
                    return (high - quotient) * base + (low - remainder) + whole
    return high * base + low


def _divided_later(quotient: Expr, base: Expr) -> Expr | None:
    """``x`` of ``x // base``, which may be a quotient itself."""
    value, divisor = quotient.args
    if divisor is base:
        return value
    by_more = divisor.is_const and base.is_const and divisor.value % base.value == 0
    return value // (divisor.value // base.value) if by_more else None


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


@lru_cache(maxsize=1 << 12)
def without_remainders(expr: Expr) -> Expr:
    """The same as a sum of products, with ``x - d · (x // d)`` in place of ``x % d``."""
    if expr.kind == "sum":
        return total([(const(expr.args[0]), 1), *((without_remainders(term), by) for by, term in expr.args[1])])
    if expr.kind == "product":
        return reduce(_multiplied_out, map(without_remainders, expr.args))
    if expr.kind == "mod":
        value, base = expr.args
        return without_remainders(value) - _multiplied_out(without_remainders(base), value // base)
    return expr


def _multiplied_out(left: Expr, right: Expr) -> Expr:
    sides = ([*side.terms(), (side.constant_part(), const(1))] for side in (left, right))
    first, second = sides
    return total((a * b, by * times) for by, a in first for times, b in second)
