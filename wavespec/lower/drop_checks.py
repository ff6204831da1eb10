"""Thread kernel in, thread kernel out: loads are not asked in each step for what the end of their loop says."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar, Final

from wavespec.ir.expr import Expr, at_most, const, total
from wavespec.ir.kernel import Kernel, Op, rewrite
from wavespec.ir.thread_ops import FOR, LOAD
from wavespec.lower.base import Pass
from wavespec.lower.thread_properties import is_of_lanes
from wavespec.targets.machine import Machine

_CODE_BITS: Final = 8
"""Of elements that are decoded, and loaded by many loads of a few bytes."""


class DropChecks(Pass):
    """Leave out checks of loads that hold in every step of the loop around them.

    Before: elements along k are read at the places of a mapping, and ``at_k + in_k < K`` is checked of each, of several
            side by side in a step, as copies have, ``at_k + in_k + 17 < K``.
    After:  not where the loop over ``in_k`` ends at ``K - at_k``, and has whole steps: what is left to check is the
            same in all steps, and of several in one.  So do waves of several elements, whose loop ends at ``C // 16``,
            with what they read of any tensor.  Of what is decoded, a check goes as well that holds wherever the loop
            has a step, ``at_k < K``.
    """

    name: ClassVar[str] = "drop-checks"
    requires = (is_of_lanes,)

    def applies_to(self, machine: Machine) -> bool:
        return not machine.concurrent_waves

    def apply(self, kernel: Kernel, machine: Machine) -> Kernel:
        mapped = {memory.name for memory in kernel.memories if memory.mapped}
        decoded = {memory.name for memory in kernel.memories if memory.dtype.bits <= _CODE_BITS}

        def change(op: Op) -> tuple[Op, ...]:
            ops = (_unchecked(one, op, kernel, mapped, decoded) if _is_checked(one) else one for one in op.body.ops)
            return (replace(op, region=replace(op.body, ops=tuple(ops))),)

        return replace(kernel, body=rewrite(kernel.body, change, FOR))


def _is_checked(op: Op) -> bool:
    return op.is_(LOAD) and bool(op["mask"])


def _unchecked(load: Op, loop: Op, kernel: Kernel, mapped: set[str], decoded: set[str]) -> Op:
    step, least = kernel.symbol(loop["induction"]), 1 if load["memory"] in mapped | decoded else 2
    left = [pair for pair in load["mask"] if not holds_in(loop, *pair, step, least)]
    if load["memory"] in decoded:
        left = [pair for pair in left if not _holds_in_front(loop, *pair)]
    return load.with_(mask=tuple(left))


def _holds_in_front(loop: Op, left: Expr, right: Expr) -> bool:
    """Whether a place that is the same in all steps of a loop is less than a size where the loop has a step."""
    if loop["induction"] in left.symbols | right.symbols or loop["lower"] is not const(0):
        return False
    return any(at_most(left + _not_rounded(end), right) for end in _ends(loop))


def _ends(loop: Op) -> tuple[Expr, ...]:
    upper = loop["upper"]
    return upper.args if upper.kind == "min" else (upper,)


def holds_in(loop: Op, left: Expr, right: Expr, step: Expr, least: int) -> bool:
    """Whether a place that grows with the index of a loop, by `least` or more, is less than a size in all steps."""
    name, by = loop["induction"], next((count for count, term in left.terms() if term is step), 0)
    rest = left - step * by
    if by < least or name in rest.symbols or name in right.symbols:
        return False
    ends = _ends(loop)
    size = loop["step"].value if loop["step"].is_const and loop["lower"] is const(0) else 1
    behind = size - 1 if all(end.divisor % size == 0 for end in ends) else 0
    return any(at_most(_not_rounded(end * by) + rest - by * (behind + 1) + 1, right) for end in ends)


def _not_rounded(end: Expr) -> Expr:
    """The same or more: ``x`` for ``x // 2 * 2``."""
    steps = [(by, term) for by, term in end.terms() if term.kind == "floordiv" and term.args[1] is const(by)]
    return end + total((term.args[0] - term * by, 1) for by, term in steps)
