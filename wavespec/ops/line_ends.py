"""A tensor and neighbours of a lane in; whether these are widest accesses though the tensor may end within one, out."""

from __future__ import annotations

from wavespec.ir.kernel import Memory
from wavespec.targets.machine import Machine


def takes_ends_apart(memory: Memory, elements: int, machine: Machine) -> bool:
    """Whether so many neighbours are widest accesses to a tensor of one dim, wherever that ends."""
    if memory.dtype.is_packed or elements * memory.dtype.bytes % machine.globals.access_bytes:
        return False
    return machine.globals.ends_apart and memory.is_line
