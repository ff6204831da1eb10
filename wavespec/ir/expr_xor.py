"""Two index expressions in, what is left of their exclusive or, out: what occurs twice is gone."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wavespec.ir.expr import Expr


def unpaired(left: Expr, right: Expr) -> list[Expr] | None:
    """The terms that occur an odd number of times in both; None where nothing occurs twice.  A swizzle undoes
    itself."""
    terms = (*_terms(left), *_terms(right))
    odd: dict[Expr, None] = {}
    for term in terms:
        if term in odd:
            del odd[term]
        else:
            odd[term] = None
    return None if len(odd) == len(terms) else list(odd)


def _terms(node: Expr) -> tuple[Expr, ...]:
    return tuple(term for argument in node.args for term in _terms(argument)) if node.kind == "xor" else (node,)
