"""Thread kernel in, thread kernel out: waves that lie inside of a tensor check nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import reduce
from typing import ClassVar, Final

from wavespec.ir.expr import Expr, at_most, const, maximum, minimum
from wavespec.ir.kernel import Kernel, Op, rewrite
from wavespec.ir.rewriting import copied
from wavespec.ir.thread_ops import ATOMIC, DOT, FOR, LOAD, MMA, STORE
from wavespec.lower.base import Pass, fresh_names
from wavespec.lower.thread_properties import is_of_lanes
from wavespec.targets.machine import Machine

_MOST_OPS: Final = 1000
"""Of what stands twice: compilers take a second for as many."""
_MOST_AT_ONCE: Final = 256
"""The same where no loop is inside, or products are written out: a check for all of it is then little beside what is
done."""


class PeelWaves(Pass):
    """Run the waves that lie inside of a tensor without bound checks, and those behind them with.

    Before: a loop over waves loads and stores as much of a row as there is (``valid``), which the last wave alone may
            have less of than it could; or combines elements at places of data, and asks for each whether it is there.
    After:  the loop stands there twice: up to the first wave that sticks out of its row, with plain accesses, and from
            there on as it was.  Loops of products of matrices stay one, and such of very much code.
    """

    name: ClassVar[str] = "peel-waves"
    requires = (is_of_lanes,)

    def applies_to(self, machine: Machine) -> bool:
        return not machine.concurrent_waves

    def apply(self, kernel: Kernel, machine: Machine) -> Kernel:
        fresh = fresh_names(kernel)
        return replace(kernel, body=rewrite(kernel.body, lambda op: _peeled(op, kernel, fresh), FOR))


def _peeled(loop: Op, kernel: Kernel, fresh: Callable[[str], str]) -> tuple[Op, ...]:
    inside = [op for op in loop.walk() if op is not loop]
    is_in_loops = any(op.is_(FOR) for op in inside) and not any(op.is_(DOT) for op in inside)
    most = _MOST_OPS if is_in_loops else _MOST_AT_ONCE
    if loop.operands or loop["step"] != const(1) or len(inside) > most or any(op.is_(MMA) for op in inside):
        return (loop,)
    found = [*_rooms(loop, inside, kernel)]
    if not found:
        return (loop,)
    checked = {left for left, _, _ in found}
    steps = sorted({step for *_, step in found})
    ends = [reduce(_least, (room for _, room, by in found if by == step)) // step for step in steps]
    end = maximum(reduce(minimum, ends, loop["upper"]), loop["lower"])

    def unchecked(op: Op) -> Op:
        if op.is_(ATOMIC):
            return op.with_(mask=tuple(pair for pair in op["mask"] if pair[1] - pair[0] not in checked))
        return op.with_(valid=None) if op.get("valid") in checked else op

    (whole,) = rewrite((copied(loop, fresh, {}),), lambda op: (unchecked(op),))
    return whole.with_(upper=end), loop.with_(lower=end)


def _rooms(loop: Op, inside: list[Op], kernel: Kernel) -> Iterator[tuple[Expr, Expr, int]]:
    """Of accesses what is left of their rows in a step of the loop, the elements of the steps in which that is enough,
    and those of one step."""
    name = loop["induction"]
    own = {op[key] for op in inside for key in ("induction", "symbol") if op.get(key) is not None}
    for left, size in (one for op in inside for one in _checks(op)):
        if name not in left.symbols or not own.isdisjoint(left.symbols):
            continue
        first = left.substitute({name: 0})
        step = first - left.substitute({name: 1})
        if step.is_const and step.value > 0 and left == first - kernel.symbol(name) * step:
            yield left, first - size + step, step.value


def _checks(op: Op) -> Iterator[tuple[Expr, int]]:
    """What is left of a row where an access begins, and how many elements it has."""
    left = op.get("valid") if op.is_(LOAD, STORE) else None
    if left is not None:
        yield left, (op.results or op.operands)[0].vector.elements
    elif op.is_(ATOMIC):
        yield from ((right - left, 1) for left, right in op["mask"])


def _least(left: Expr, right: Expr) -> Expr:
    return left if at_most(left, right) else right if at_most(right, left) else minimum(left, right)
