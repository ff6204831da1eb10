"""Index expressions in, one integer per thread out: the values of symbols while a workgroup runs."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from wavespec.ir.expr import Expr
from wavespec.ir.kernel import Kernel
from wavespec.sim.elements import Integers


class SymbolValues:
    """Symbols of one workgroup: sizes, workgroup ids, wave symbols, ``lane``, inductions of open loops.

    Expressions are remembered for as long as the deepest induction in them stands still.
    """

    def __init__(self, kernel: Kernel, sizes: Mapping[str, int], workgroup: tuple[int, ...]) -> None:
        self.threads = kernel.threads
        thread = np.arange(self.threads)
        self.values: dict[str, Any] = {**sizes, "lane": thread % kernel.lanes}
        self.values |= {f"wg{axis}": workgroup[axis] if axis < len(workgroup) else 0 for axis in range(3)}
        rest = thread // kernel.lanes
        for name, count in reversed(kernel.waves):
            self.values[name] = rest % count
            rest = rest // count
        self._depth: dict[str, int] = {}
        self._remembered: list[dict[Expr, Integers]] = [{}]

    def per_thread(self, expr: Expr) -> Integers:
        """The expression for every thread, ``[threads]``."""
        depth = max((self._depth.get(name, 0) for name in expr.symbols), default=0)
        remembered = self._remembered[depth]
        known = remembered.get(expr)
        if known is None:
            known = np.broadcast_to(np.asarray(expr.evaluate(self.values), np.int64), (self.threads,))
            remembered[expr] = known
        return known

    def open_loop(self, induction: str) -> None:
        self._remembered.append({})
        self._depth[induction] = len(self._remembered) - 1

    def set_induction(self, induction: str, value: Any) -> None:
        self.values[induction] = value
        self._remembered[self._depth[induction]].clear()

    def close_loop(self, induction: str) -> None:
        self._remembered.pop()
        del self._depth[induction]
        self.values.pop(induction, None)


def outside_range(known: Expr, value: Any) -> bool:
    """Whether any thread's value leaves the declared range or divisibility of a symbol."""
    _, low, high, divisor = known.args
    numbers = np.asarray(value)
    low_bound, high_bound = (-math.inf if low is None else low), (math.inf if high is None else high)
    return bool(((numbers < low_bound) | (numbers > high_bound) | (numbers % divisor != 0)).any())
