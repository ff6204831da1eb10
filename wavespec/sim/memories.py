"""Kernel memories and the caller's arrays in, simulated memories out: data, shadow and who wrote what."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from wavespec.ir.kernel import Kernel, Memory
from wavespec.ir.strided import contiguous_strides, names_of_tensor, numbers_of_tensor, strides_that_bind, symbol_of
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
    places: npt.NDArray[np.int64] | None = None
    """Of a tensor of any strides: for each element where it is in ``data``, in the shape of the tensor."""

    @property
    def tensor(self) -> Array:
        """A tensor in its shape."""
        return self.data.reshape(self.shape) if self.places is None else self.data[self.places]

    def coordinate_of(self, place: int) -> tuple[int, ...]:
        """The indices of the element of a tensor at a place of ``data``; nothing where there is none."""
        if self.places is None:
            return tuple(int(index) for index in np.unravel_index(place, self.shape))
        return tuple(int(index) for index in next(iter(np.argwhere(self.places == place)), ()))

    @property
    def bytes(self) -> int:
        """Bytes of one element."""
        return self.data.dtype.itemsize


def tensors_to_memories(
    kernel: Kernel, tensors: Mapping[str, Array], sizes: Mapping[str, int]
) -> dict[str, SimulatedMemory]:
    """The global memories, and counters; raises ``ValueError`` for a missing input, a wrong shape or a wrong dtype.

    An output that is not given starts poisoned, or as zeros where the kernel relies on that.
    """
    memories: dict[str, SimulatedMemory] = {}
    for memory in kernel.memories:
        if memory.space in ("counter", "handed"):
            memories[memory.name] = _of_launch(memory, int(memory.elements.evaluate(sizes)))
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
        places = _places(memory, shape, sizes) if memory.is_strided else None
        flat = np.ascontiguousarray(array).reshape(-1)
        if places is not None:
            flat = poisoned(memory.dtype, int(places.max(initial=-1)) + 1)
            flat[places] = array
        memories[memory.name] = SimulatedMemory(
            memory,
            flat.copy() if written else flat,
            len(flat),
            Shadow(len(flat), given) if written else None,
            np.zeros(len(flat), np.int32) if written else None,
            shape,
            given,
            places,
        )
    return memories


def _of_launch(memory: Memory, elements: int) -> SimulatedMemory:
    """Zeros of a counter; what workgroups hand each other, which anybody may read once it is written."""
    if memory.space == "counter":
        zeros = np.zeros(elements, numpy_dtype(memory.dtype))
        owner = np.zeros(elements, np.int32)
        return SimulatedMemory(memory, zeros, elements, Shadow(elements, True), owner, (elements,), given=True)
    unset = poisoned(memory.dtype, elements)
    return SimulatedMemory(memory, unset, elements, Shadow(elements, False), None, (elements,), given=True)


def _places(memory: Memory, shape: tuple[int, ...], sizes: Mapping[str, int]) -> npt.NDArray[np.int64]:
    """Where the elements of a tensor of any strides are, counted from the address that the kernel gets."""
    assert memory.start is not None
    places = np.full(shape, memory.start.evaluate(sizes), np.int64)
    for index, stride in zip(np.indices(shape), memory.strides, strict=True):
        places += index * stride.evaluate(sizes)
    return places


def numbers_of_tensors(kernel: Kernel, tensors: Mapping[str, Array], sizes: Mapping[str, int]) -> dict[str, int]:
    """By their symbols, the offsets and strides of tensors that may have any: those of the given arrays, else of
    contiguous ones.

    Raises:
        ValueError: two arrays have different strides where they have to be one.
    """
    found, shared, dense = dict[str, int](), dict[str, int](), dict[str, int]()
    for memory in (memory for memory in kernel.memories if memory.is_strided):
        shape = tuple(int(extent.evaluate(sizes)) for extent in memory.shape)
        array = tensors.get(memory.name)
        strides, address = contiguous_strides(shape), 0
        symbols = [one.args[0] if one.kind == "symbol" else None for one in memory.strides]
        for name, stride in zip(symbols, strides, strict=True):
            dense |= {name: max(stride, dense.get(name, 0))} if name else {}
        if array is not None:
            strides, address = tuple(stride // array.itemsize for stride in array.strides), array.ctypes.data
        for axis, name, stride in strides_that_bind(shape, strides, symbols) if array is not None else ():
            if shared.setdefault(name, stride) != stride:
                dim = memory.dims[axis]
                raise ValueError(f"'{memory.name}' has stride {stride} along {dim}, expected {shared[name]}")
        numbers = numbers_of_tensor(memory.name, memory.dims, shape, strides, address, memory.dtype.bytes)
        found |= {symbol_of(name): numbers[name] for name in names_of_tensor(memory.name, memory.dims)}
    used = [name for memory in kernel.memories for one in memory.strides for name in one.symbols]
    several = {name: stride for name, stride in dense.items() if used.count(name) > 1}
    return found | several | shared


def workgroup_memories(kernel: Kernel, sizes: Mapping[str, int]) -> dict[str, SimulatedMemory]:
    """Fresh, poisoned shared and private memories of one workgroup."""
    memories: dict[str, SimulatedMemory] = {}
    for memory in kernel.memories:
        if memory.space in ("global", "counter", "handed", "signal"):
            continue
        elements = int(memory.elements.evaluate(sizes))
        total = elements * memory.buffers
        memories[memory.name] = SimulatedMemory(memory, poisoned(memory.dtype, total), elements, Shadow(total, False))
    return memories
