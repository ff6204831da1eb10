"""Kernel memories and the caller's arrays in, simulated memories out: data, shadow and who wrote what."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from wavespec.ir.kernel import Kernel, Memory
from wavespec.sim.elements import Array, numpy_dtype, poisoned
from wavespec.sim.shadow import Shadow

SHARED = -1
"""Owner of an element that workgroups combine something with."""


@dataclass(slots=True)
class SimulatedMemory:
    """One memory while a grid runs; ``data`` is flat, buffer after buffer of ``elements`` each."""

    memory: Memory
    data: Array
    elements: int
    shadow: Shadow | None
    """None: an input, which nobody may write."""
    owner: npt.NDArray[np.int32] | None = None
    """Global memory that is written: per element 1 + the number of the workgroup that wrote it last, 0, or `SHARED`."""
    shape: tuple[int, ...] = ()
    given: bool = False

    @property
    def bytes(self) -> int:
        """Bytes of one element."""
        return self.data.dtype.itemsize


def tensors_to_memories(
    kernel: Kernel, tensors: Mapping[str, Array], sizes: Mapping[str, int]
) -> dict[str, SimulatedMemory]:
    """The global memories; raises ``ValueError`` for a missing input, a wrong shape or a wrong dtype.

    An output that is not given starts poisoned, or as zeros where the kernel relies on that.
    """
    memories: dict[str, SimulatedMemory] = {}
    for memory in kernel.memories:
        if memory.space != "global":
            continue
        shape = tuple(int(extent.evaluate(sizes)) for extent in memory.shape)
        array = tensors.get(memory.name)
        given = array is not None
        if array is None:
            if memory.role != "output":
                raise ValueError(f"input tensor '{memory.name}' is missing; given: {sorted(tensors)}")
            array = poisoned(memory.dtype, int(np.prod(shape))).reshape(shape)
            if memory.zeroed:
                array, given = np.zeros_like(array), True
        if array.shape != shape or array.dtype != numpy_dtype(memory.dtype):
            raise ValueError(f"tensor '{memory.name}' is {array.dtype}{array.shape}, expected {memory.dtype}{shape}")
        written = memory.role != "input"
        flat = np.ascontiguousarray(array).reshape(-1)
        memories[memory.name] = SimulatedMemory(
            memory,
            flat.copy() if written else flat,
            len(flat),
            Shadow(len(flat), given) if written else None,
            np.zeros(len(flat), np.int32) if written else None,
            shape,
            given,
        )
    return memories


def workgroup_memories(kernel: Kernel, sizes: Mapping[str, int]) -> dict[str, SimulatedMemory]:
    """Fresh, poisoned shared and private memories of one workgroup."""
    memories: dict[str, SimulatedMemory] = {}
    for memory in kernel.memories:
        if memory.space in ("global", "signal"):
            continue
        elements = int(memory.elements.evaluate(sizes))
        total = elements * memory.buffers
        memories[memory.name] = SimulatedMemory(memory, poisoned(memory.dtype, total), elements, Shadow(total, False))
    return memories
