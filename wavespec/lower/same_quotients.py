"""Places of rows, one after the other, go in; what says that all of them are the same comes out.

Pixels side by side are in one line of an image where ``m // W`` is that of the first and of the last one.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from wavespec.ir.expr import Expr, const


class _Quotient(NamedTuple):
    """``number // divisors[-1] // .. % sizes[-1] ..``; ``whole``: without what the sizes leave of it."""

    number: Expr
    divisors: tuple[Expr, ...]
    sizes: tuple[Expr, ...]
    whole: Expr


def quotients_apart(places: Sequence[Expr]) -> Expr | None:
    """0 where all of them are the same, else more, or less; None where nothing tells."""
    rows = [place.terms() for place in places]
    shared = {pair for pair in rows[0] if all(pair in row for row in rows)}
    own = [[pair for pair in row if pair not in shared] for row in rows]
    if not any(own):
        return const(0) if len({place.constant_part() for place in places}) == 1 else None
    if any(len(pairs) != 1 for pairs in own) or len({place.constant_part() for place in places}) > 1:
        return None
    (factor, _), *_ = own[0]
    found = [_quotient(term) for ((_, term),) in own]
    first, last = found[0], found[-1]
    alike = all(one.divisors == first.divisors and one.sizes == first.sizes for one in found)
    if not first.divisors or not alike or any(by != factor for ((by, _),) in own):
        return None
    ways = [after.number.beyond(before.number) for before, after in pairwise(found)]
    return last.whole - first.whole if all(way is not None and way >= 0 for way in ways) else None


def _quotient(term: Expr) -> _Quotient:
    sizes, divisors = list[Expr](), list[Expr]()
    while term.kind == "mod":
        sizes.append(term.args[1])
        term = term.args[0]
    whole = term
    while term.kind == "floordiv":
        divisors.append(term.args[1])
        term = term.args[0]
    return _Quotient(term, tuple(divisors), tuple(sizes), whole)
