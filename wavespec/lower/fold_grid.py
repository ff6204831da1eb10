"""Thread kernel in, thread kernel out: a grid has no more axes than a launch."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from wavespec.ir.expr import Expr, const, symbol
from wavespec.ir.kernel import Kernel, Op, attribute_pairs
from wavespec.lower.base import Pass
from wavespec.targets.machine import Machine

_AXES = 3  # of a launch, on every machine
_MOST_WORKGROUPS = 2**30  # sums with small numbers stay within 32 bits


class FoldGrid(Pass):
    """Put the axes of the grid beyond the launch's into its last one.

    Before: a grid of any number of axes; ``wg0`` ... are a workgroup's place in it.
    After:  at most three.  Where there were more, the machine counts workgroups along the folded ones by ``folded``,
            and ``let`` says which place a number is, the first of these axes running fastest.
    """

    name: ClassVar[str] = "fold-grid"

    def apply(self, kernel: Kernel, machine: Machine) -> Kernel:
        kept, folded = kernel.grid[: _AXES - 1], kernel.grid[_AXES - 1 :]
        if len(folded) <= 1:
            return kernel
        number = symbol("folded", 0, _MOST_WORKGROUPS)
        count, rest = const(1), number
        lets: list[Op] = []
        for axis, extent in enumerate(folded, _AXES - 1):
            is_last = axis == len(kernel.grid) - 1
            place = rest if is_last else rest % extent
            if any(known.args[0] == f"wg{axis}" for known in kernel.symbols):
                lets.append(_let(f"wg{axis}", place))
            count, rest = count * extent, rest if is_last else rest // extent
        return replace(kernel.with_symbols(number), grid=(*kept, count), body=(*lets, *kernel.body))


def _let(name: str, value: Expr) -> Op:
    return Op("let", attributes=attribute_pairs({"symbol": name, "value": value}))
