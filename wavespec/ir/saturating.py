"""Index expressions in; their sums and products, where those could wrap in 64 bits as far as they can be told from what
is outside of every tensor, out.

Numbers of a call, and values of 64 bits, may be anything.  In places, bounds and conditions they count as at most
`LARGEST`, and so do products and sums that are made of them: one that wrapped would be a place inside again.
"""

from __future__ import annotations

from wavespec.ir.expr import Expr, const, maximum, minimum

LARGEST = 2**61
"""What larger numbers count as: neither a sum nor a difference of two such numbers wraps."""
_FITS = 2**63 - 2**33
"""Up to here results are left as they are; to and from these passes add and take sizes, and elements of a tile."""


def saturated(number: Expr) -> Expr:
    """The number, at most `LARGEST` on either side of 0."""
    return number if _is_within(number, LARGEST) else minimum(maximum(number, -LARGEST), LARGEST)


def is_large_number(number: Expr) -> bool:
    """Whether what stands for a number of a call, or for a value, may need more than 32 bits."""
    return not _is_within(number, 2**32)


def plus(left: Expr, right: Expr) -> Expr:
    result = left + right
    if not (_is_known(left) and _is_known(right)) or _is_within(result, _FITS):
        return result
    return saturated(saturated(left) + saturated(right))


def minus(left: Expr, right: Expr) -> Expr:
    return plus(left, -right)


def times(left: Expr, right: Expr) -> Expr:
    result = left * right
    if not (_is_known(left) and _is_known(right)) or _is_within(result, _FITS):
        return result
    wide, other = (left, right) if _largest(left) >= _largest(right) else (right, left)
    most = const(LARGEST) // maximum(1, maximum(other, -other))
    return saturated(minimum(maximum(wide, -most), most) * other)


def _is_known(number: Expr) -> bool:
    """Whether it has limits; places of elements along a dim, and what tensors hold, have none."""
    return number.low is not None and number.high is not None


def _largest(number: Expr) -> int:
    assert number.low is not None and number.high is not None
    return max(-number.low, number.high)


def _is_within(number: Expr, most: int) -> bool:
    return _is_known(number) and _largest(number) <= most
