"""Byte addresses of one shared access in, cycles out: how often the banks are read to serve a wave."""

from __future__ import annotations

import numpy as np

from wavespec.sim.elements import Flags, Integers
from wavespec.targets.machine import SharedMemory


def access_cycles(address: Integers, active: Flags, width: int, lanes: int, shared: SharedMemory) -> tuple[int, int]:
    """``(cycles, cycles without conflicts)`` of one access of all waves.

    A wide access is served in phases: consecutive lanes whose bytes fill all banks once go together (8 lanes
    of 16 bytes for 32 banks of 4), one cycle per word that their fullest bank delivers; lanes that read one
    word share it.  An access wider than the machine's widest is several.

    Args:
        address: first byte of each thread, ``[threads]``.
        active: threads that take part, ``[threads]``.
        width: bytes per thread.
        lanes: threads per wave.
    """
    if width > shared.access_bytes:
        parts = [
            access_cycles(address + start, active, min(shared.access_bytes, width - start), lanes, shared)
            for start in range(0, width, shared.access_bytes)
        ]
        return sum(cycles for cycles, _ in parts), sum(ideal for _, ideal in parts)
    row_bytes = shared.banks * shared.bank_bytes
    group = _phase_lanes(width, lanes, shared)
    ideal_per_group = -(-group * width // row_bytes)
    covered = -(-width // shared.bank_bytes)
    words = (address // shared.bank_bytes)[:, None] + np.arange(covered)
    if width > 1 and (address % shared.bank_bytes + width > covered * shared.bank_bytes).any():
        words = (address // shared.bank_bytes)[:, None] + np.arange(covered + 1)
        last = (address + width - 1) // shared.bank_bytes
        words = np.minimum(words, last[:, None])
    words = np.where(active[:, None], words, -1).reshape(-1, group * words.shape[1])
    words = np.sort(words, axis=1)
    counted = words >= 0
    counted[:, 1:] &= words[:, 1:] != words[:, :-1]
    groups = np.arange(len(words))[:, None]
    per_bank = np.bincount((groups * shared.banks + words % shared.banks)[counted], minlength=len(words) * shared.banks)
    cycles = per_bank.reshape(len(words), shared.banks).max(axis=1)
    return int(cycles.sum()), int(ideal_per_group * np.count_nonzero(cycles))


def busiest_bank(address: Integers, active: Flags, width: int, lanes: int, shared: SharedMemory) -> tuple[int, ...]:
    """The threads that ask one bank for different words in one phase, where those are most; as in `access_cycles`."""
    width = min(width, shared.access_bytes)
    group = _phase_lanes(width, lanes, shared)
    worst: dict[int, int] = {}
    for first in range(0, len(address), group):
        asked: dict[int, dict[int, int]] = {}
        for thread in first + np.flatnonzero(active[first : first + group]):
            start = int(address[thread])
            for word in range(start // shared.bank_bytes, (start + width - 1) // shared.bank_bytes + 1):
                asked.setdefault(word % shared.banks, {}).setdefault(word, int(thread))
        worst = max([worst, *asked.values()], key=len)
    return tuple(dict.fromkeys(worst.values()))


def _phase_lanes(width: int, lanes: int, shared: SharedMemory) -> int:
    """How many consecutive lanes are served together."""
    return max(1, min(lanes, shared.banks * shared.bank_bytes // width))
