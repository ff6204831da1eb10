"""A thread kernel and a call in; about how long the simulator will take for it out."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from wavespec.ir.expr import Expr
from wavespec.ir.kernel import Kernel, Op
from wavespec.ir.thread_ops import FOR, LET

_TWO_ENDS = (0, 1)


def operations_of(kernel: Kernel, numbers: Mapping[str, int], strands: int) -> int:
    """How many operations the lanes of all workgroups do, those of one of the ``strands`` of a workgroup at once.

    Loops run as often as in the first or in the last workgroup; those whose end is loaded count once.

    Args:
        numbers: sizes and what else is known of a call, by symbol.
        strands: parts of a workgroup whose lanes run in step.
    """
    grid = [int(extent.evaluate(numbers)) for extent in kernel.grid]
    if not all(grid):
        return 0
    ids = ("wg", "id", "launch")
    most = 0
    for end in _TWO_ENDS:
        first = {"lane": 0, "rank": 0, "workgroup": 0, **{name: 0 for name, _ in kernel.waves}}
        first |= {f"{name}{axis}": end * (extent - 1) for axis, extent in enumerate(grid) for name in ids}
        most = max(most, _operations(kernel.body, {**first, **numbers}))
    return most * strands * math.prod(grid)


def _operations(ops: Iterable[Op], known: dict[str, int]) -> int:
    known, total = dict(known), 0
    for op in ops:
        total += 1
        if op.is_(LET):
            _set(known, op["symbol"], _number(op["value"], known))
        elif op.is_(FOR):
            lower, upper, step = (_number(op[end], known) for end in ("lower", "upper", "step"))
            _set(known, op["induction"], lower)
            inside = _operations(op.body.ops, known)
            known.pop(op["induction"], None)
            ends = None if lower is None or upper is None or not step else max(0, -((lower - upper) // step))
            total += inside * (1 if ends is None else ends)
        elif op.region:
            total += _operations(op.body.ops, known)
    return total


def _set(known: dict[str, int], symbol: str, number: int | None) -> None:
    known.pop(symbol, None)
    if number is not None:
        known[symbol] = number


def _number(expr: Expr, known: Mapping[str, int]) -> int | None:
    """The value of an expression, unless it has something that is known while the kernel runs."""
    try:
        return int(expr.evaluate(known))
    except (KeyError, ZeroDivisionError):
        return None
