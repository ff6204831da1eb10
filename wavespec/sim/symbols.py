"""Index expressions in, one integer per lane out: the values of symbols while some lanes of a workgroup run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from wavespec.ir.expr import Expr
from wavespec.ir.kernel import Kernel
from wavespec.sim.elements import Integers


class SymbolValues:
    """Symbols of the lanes ``first`` to ``first + threads - 1`` of a workgroup: sizes, workgroup ids, wave symbols
    (producers have none), ``lane``, inductions of open loops and whatever a ``let`` defined.

    Expressions are remembered for as long as the innermost loop or ``let`` that they depend on stands still.
    """

    def __init__(
        self, kernel: Kernel, sizes: Mapping[str, int], workgroup: tuple[int, ...], first: int, threads: int
    ) -> None:
        self.first, self.threads = first, threads
        lanes = np.arange(first, first + threads)
        self.values: dict[str, Any] = {**sizes, "lane": lanes % kernel.lanes}
        first_id = workgroup[0] if workgroup else 0
        self.values |= {"workgroup": first_id, "rank": first_id % kernel.cluster}
        declared = {known.args[0] for known in kernel.symbols}
        # Others of an axis follow from it, by `let`; of workgroups that stay all do, from `workgroup`.
        for axis, number in enumerate(() if "workgroup" in declared else workgroup):
            names = [f"{name}{axis}" for name in ("id", "launch", "wg")]
            self.values[next((name for name in names if name in declared), names[-1])] = number
        rest = lanes // kernel.lanes
        if first // kernel.lanes < kernel.wave_count:
            for name, count in reversed(kernel.waves):
                self.values[name] = rest % count
                rest = rest // count
        self._zeros = np.zeros(threads, np.int64)
        self._depth: dict[str, int] = {}
        self._opened: list[tuple[str, int | None, Any]] = []
        self._known: dict[Expr, Integers | int] = {}
        self._forgotten: list[list[Expr]] = [[]]
        """By depth: which expressions have another value when what was opened there has."""

    def value(self, expr: Expr) -> Integers | int:
        """The expression: a number that is the same for all lanes, or ``[threads]``."""
        known = self._known.get(expr)
        if known is None:
            known = self._known[expr] = expr.evaluate(self.values, self.value)
            depth, depths = 0, self._depth
            for name in expr.symbols:  # asked for at most accesses: no generator
                if name in depths and depths[name] > depth:
                    depth = depths[name]
            self._forgotten[depth].append(expr)
        return known

    def per_thread(self, expr: Expr) -> Integers:
        """The expression for every lane, ``[threads]``."""
        value: Integers | int = self.value(expr)
        return value if isinstance(value, np.ndarray) else self._zeros + value

    def open(self, name: str, value: Any = None) -> None:
        """From here on a symbol has a value of its own, that of a loop to be `set`."""
        if name in self.values:
            self._forget_all()
        self._opened.append((name, self._depth.get(name), self.values.get(name)))
        self._forgotten.append([])
        self._depth[name] = len(self._forgotten) - 1
        self.values[name] = value

    def set(self, name: str, value: Any) -> None:
        """Another value of the symbol that was opened last but for those closed again."""
        self.values[name] = value
        self._forget(self._depth[name])

    def close(self) -> None:
        """What was opened last has its old meaning again."""
        name, depth, value = self._opened.pop()
        self._forget(-1)
        self._forgotten.pop()
        if value is not None:
            self._forget_all()
        for table, before in ((self._depth, depth), (self.values, value)):
            if before is None:
                del table[name]
            else:
                table[name] = before

    def _forget(self, depth: int) -> None:
        for expr in self._forgotten[depth]:
            del self._known[expr]
        self._forgotten[depth].clear()

    def _forget_all(self) -> None:
        """A name means something else: whatever was said with it has another value."""
        for depth in range(len(self._forgotten)):
            self._forget(depth)


def outside_range(known: Expr, value: Any) -> bool:
    """Whether any thread's value leaves the declared range or divisibility of a symbol."""
    _, low, high, divisor = known.args
    least, most = (value.min(), value.max()) if isinstance(value, np.ndarray) else (value, value)
    if (low is not None and least < low) or (high is not None and most > high):
        return True
    return divisor != 1 and bool(np.any(value % divisor != 0))
