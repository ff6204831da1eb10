"""Two index expressions in, the normal form of their exclusive or out: what occurs twice is gone, and one constant has
all bits that are known."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wavespec.ir.expr import Expr


def parts(left: Expr, right: Expr) -> tuple[int, list[Expr]]:
    """The constant, and the terms that occur an odd number of times, of an exclusive or.  A swizzle undoes itself."""
    constant = 0
    odd: dict[Expr, None] = {}
    for node in (left, right):
        known, terms = _parts(node)
        constant ^= known
        for term in terms:
            if term in odd:
                del odd[term]
            else:
                odd[term] = None
    return constant, list(odd)


def possible_bits(node: Expr) -> int:
    """The bits that may be 1 for some symbols; to add any others is an exclusive or."""
    if node.kind == "xor":
        left, right = node.args
        return possible_bits(left) | possible_bits(right)
    if node.kind == "const":
        return node.value
    above = 0 if node.low is None or node.low < 0 or node.high is None else -1 << node.high.bit_length()
    return -power_of_two(node) & ~above


def power_of_two(node: Expr) -> int:
    """The largest one that is known to divide an expression."""
    return node.divisor & -node.divisor


def _parts(node: Expr) -> tuple[int, tuple[Expr, ...]]:
    if node.kind == "const":
        return node.value, ()
    if node.kind == "xor":
        (constant, left), (more, right) = map(_parts, node.args)
        return constant ^ more, (*left, *right)
    constant = node.constant_part()
    rest = node - constant if constant else node
    if constant and not constant & possible_bits(rest):
        known, terms = _parts(rest)
        return constant ^ known, terms
    return 0, (node,)
