"""A tensor and neighbours of a lane in; whether these are one access though the tensor may end within it, out."""

from __future__ import annotations

from wavespec.ir.kernel import Memory
from wavespec.targets.machine import Machine

_MANY = 4
"""Of fewer elements, such as the pairs that matrix instructions leave a lane, a branch takes longer than accesses."""


def takes_ends_apart(memory: Memory, elements: int, machine: Machine) -> bool:
    """Whether so many neighbours of a tensor of one dim are accessed at once, wherever that ends."""
    is_line = memory.is_line and not memory.dtype.is_packed
    return is_line and machine.globals.ends_apart and elements % _MANY == 0
