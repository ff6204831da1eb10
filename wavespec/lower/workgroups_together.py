"""Workgroups that run on one processor at the same time: how many, and what each has of shared memory."""

from __future__ import annotations

from wavespec.ir.expr import Expr, const, maximum
from wavespec.ir.kernel import Kernel
from wavespec.ops.staged_writes import shared_bytes, shared_bytes_of_all
from wavespec.targets.machine import Machine

_ALIGNMENT_BYTES = 1024
"""Of shared memories, at most; a launch takes as many for itself, too."""


_MANY_WAVES = 4
"""Of a workgroup, for whose launches the memory that lanes have of their own is cut to size."""


def waves_together(kernel: Kernel, machine: Machine) -> int:
    """Waves that a processor has registers for, where launches differ in how many of them a workgroup has; each of its
    parts has a share of the registers, which holds whole waves."""
    parts = machine.resources.parts if machine.resources else 1
    return machine.register_file // parts // (kernel.distribution.registers * kernel.lanes) * parts


def resident_of(kernel: Kernel, machine: Machine) -> Expr:
    """Workgroups on a processor, by the sizes of a call where these say how many waves a workgroup has."""
    if kernel.launched is None:
        return const(kernel.distribution.resident)
    return maximum(const(waves_together(kernel, machine)) // kernel.launched, 1)


def resident_of_each(kernel: Kernel, machine: Machine) -> tuple[int, ...]:
    """All numbers that `resident_of` may come to."""
    if kernel.launched is None:
        return (kernel.distribution.resident,)
    return tuple(max(1, waves_together(kernel, machine) // waves) for waves in range(1, kernel.wave_count + 1))


def shared_bytes_left(kernel: Kernel, machine: Machine) -> int:
    """What a workgroup with all of its waves has left of its share of a processor's shared memory."""
    taken = shared_bytes_of_all(kernel.memories)
    if kernel.launched is None:
        return machine.shared.bytes // kernel.distribution.resident - taken
    waves = waves_together(kernel, machine)
    others = [memory for memory in kernel.memories if memory.space == "shared" and not memory.own]
    beside = sum(-(-shared_bytes(memory) // _ALIGNMENT_BYTES) * _ALIGNMENT_BYTES for memory in others)
    beside += 2 * _ALIGNMENT_BYTES  # signals, and what the launch takes
    # Workgroups of few waves, of which there are very many, are left out: their rows are short.
    counts = range(min(_MANY_WAVES, kernel.wave_count), kernel.wave_count + 1)
    room = min((machine.shared.bytes // max(1, waves // count) - beside) // count for count in counts)
    own = sum(shared_bytes(memory) for memory in kernel.memories if memory.own)
    return room * kernel.wave_count - own
