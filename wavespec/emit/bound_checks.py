"""Accesses of elements that may be missing go in; what has to be checked of them comes out."""

from __future__ import annotations

import math
from collections.abc import Sequence

from wavespec.ir.expr import Expr, const
from wavespec.ir.kernel import Op
from wavespec.ir.thread import Mask
from wavespec.ir.thread_ops import ACCUMULATE, ATOMIC, LOAD, STORE


def is_bounded(op: Op) -> bool:
    """Whether an access checks something, and gives nothing that others wait for."""
    if op.is_(ATOMIC) and op.results:
        return False
    return op.is_(LOAD, STORE, ACCUMULATE, ATOMIC) and (
        bool(op["mask"]) or op.get("valid") is not None or op.get("front") is not None
    )


def fits_32_bits(number: Expr) -> bool:
    """Whether a number is one of 32 bits with a sign, whatever the sizes."""
    return number.low is not None and number.low >= -(2**31) and number.high is not None and number.high < 2**31


def of_blocks(mask: Mask) -> Mask:
    """The checks of the first elements of blocks, where tensors end with whole blocks: the same for all of a block."""

    def first(left: Expr, right: Expr) -> Expr:
        inside = left.constant_part()
        block = math.gcd((left - inside).divisor, right.divisor)
        return left - inside % block if block else left

    return tuple((first(left, right), right) for left, right in mask)


def all_inside(ops: Sequence[Op]) -> tuple[tuple[Expr, Expr], ...]:
    """The fewest comparisons that put every element of every access inside: of a family ``x + c < n`` the largest c."""
    largest: dict[tuple[Expr, Expr], int] = {}
    for op in ops:
        elements = (op.result if op.results else op.operands[0]).vector.elements
        pairs = list(op["mask"])
        if (valid := op.get("valid")) is not None:
            pairs.append((0 - valid + elements - 1, const(0)))
        if (front := op.get("front")) is not None:
            pairs.append((front, const(1)))
        for left, right in pairs:
            key = (left - left.constant_part(), right)
            largest[key] = max(largest.get(key, left.constant_part()), left.constant_part())
    return tuple((base + constant, right) for (base, right), constant in largest.items())
