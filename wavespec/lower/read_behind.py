"""A value in; what it follows from, where each element is made of those at its place in tiles that are read, out."""

from __future__ import annotations

from wavespec.ir.kernel import Kernel, Value
from wavespec.ir.tile_ops import BITCAST, CAST, ELEMENTWISE, READ

_STEPS = CAST | BITCAST | ELEMENTWISE


def read_behind(kernel: Kernel, value: Value) -> frozenset[str]:
    """A value that is computed, and all that it follows from, if that is done element by element from what is read."""
    makers = {value.name: op for op in kernel.walk() if op.region is None for value in op.results}
    found, waiting = set[str](), [value.name]
    while waiting:
        name = waiting.pop()
        maker = makers.get(name)
        if maker is None or not maker.is_(_STEPS | READ) or (maker.is_(READ) and name == value.name):
            return frozenset()
        if maker.is_(_STEPS) and name not in found:
            waiting += (operand.name for operand in maker.operands)
        found.add(name)
    return frozenset(found)
