"""Accesses of elements that may be missing go in; what has to be checked of them comes out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce

from wavespec.ir.expr import Expr, const, minimum
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


def ends_of_all(ops: Sequence[Op]) -> tuple[Expr | None, list[Op]]:
    """How many elements at most there are in each of several loads, of which each has another end besides, and the loads
    with these ends alone: the first is no reason to check the others one by one."""
    ends = [_ends(op) for op in ops]
    shared = [end for end in ends[0] if all(end in others and len(others) > 1 for others in ends)]
    if not shared or not all(op.is_(LOAD) for op in ops):
        return None, list(ops)
    own = [reduce(minimum, [end for end in others if end is not shared[0]]) for others in ends]
    return shared[0], [op.with_(valid=valid) for op, valid in zip(ops, own, strict=True)]


def _ends(op: Op) -> tuple[Expr, ...]:
    valid = op.get("valid")
    return () if valid is None else valid.args if valid.kind == "min" else (valid,)


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
