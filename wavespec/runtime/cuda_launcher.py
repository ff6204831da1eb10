"""PTX or a cubin and torch tensors go in; the kernel is queued on torch's current stream through the CUDA
driver.

A launch neither allocates nor waits, so it can be captured in a CUDA graph once a first call has loaded the
code (and, where the kernel has scratch memory, once it ran on that stream).
"""

from __future__ import annotations

import ctypes
import struct
import threading
from collections.abc import Callable, Sequence
from typing import Final

import torch
from torch import Tensor

from wavespec.runtime.artifact import TENSOR_MAP_BYTES, KernelArtifact
from wavespec.runtime.checks import ArgumentError
from wavespec.runtime.code import ArtifactError, Binary
from wavespec.runtime.cuda_driver import CudaDriver, DriverError, cuda_driver
from wavespec.runtime.launch_plan import LaunchPlan
from wavespec.runtime.tensor_maps import TensorMaps

# https://docs.nvidia.com/cuda/cuda-c-programming-guide/: above this a kernel has to opt in.
_SHARED_MEMORY_WITHOUT_OPT_IN_BYTES: Final = 48 * 1024
# What the PTX assumes of pointers (`.ptr .align 16`); torch allocates at 512, slices start anywhere.
_POINTER_ALIGNMENT_BYTES: Final = 16
_GRID_LIMITS: Final = (2**31 - 1, 65535, 65535)
_PACKED_KEPT: Final = 4096

# torch.cuda.current_stream() builds an object and costs 4 µs more.
_current_stream: Callable[[int], int] = getattr(torch._C, "_cuda_getCurrentRawStream", lambda index: 0)  # pyright: ignore

# CUlaunchConfig of cuda.h: grid, workgroup, shared memory; then the stream, and no attributes, up to 64 bytes.
_SHAPE: Final = struct.Struct("=7I")
_CONFIG: Final = f"={_SHAPE.size}s4xQ24x"
_CONFIG_BYTES: Final = struct.calcsize(_CONFIG)


class _Arguments(threading.local):
    """Arguments of a launch by the calling thread: two threads that launch at once must not write the same memory.

    One piece of memory, all of which a single `pack_into` writes: the launch configuration, then what parameters
    point to, as `CudaLauncher._packed` has it. `place` is what it takes to use it: the memory, the address of the
    configuration, and that of the table by which the driver finds the parameters, in the order of the kernel.
    """

    def __init__(self, artifact: KernelArtifact, prepare_thread: Callable[[], None]) -> None:
        prepare_thread()
        tensors, scratch = len(artifact.tensors), len(artifact.scratch_bytes)
        first_map = _CONFIG_BYTES
        first_pointer = first_map + TENSOR_MAP_BYTES * len(artifact.tensor_maps)
        first_size = first_pointer + 8 * (tensors + scratch)
        maps, pointers, sizes = (
            [first + step * index for index in range(count)]
            for first, step, count in (
                (first_map, TENSOR_MAP_BYTES, len(artifact.tensor_maps)),
                (first_pointer, 8, tensors + scratch),
                (first_size, 4, len(artifact.dynamic_dims)),
            )
        )
        self._memory = ctypes.create_string_buffer(first_size + 4 * len(sizes) + _CONFIG_BYTES)
        skipped = -ctypes.addressof(self._memory) % _CONFIG_BYTES  # tensor maps are aligned to 64 bytes
        start = ctypes.addressof(self._memory) + skipped
        order = [*pointers[:tensors], *maps, *pointers[tensors:], *sizes]
        self._table = (ctypes.c_void_p * len(order))(*[start + offset for offset in order])
        self.place = memoryview(self._memory)[skipped:], start, ctypes.addressof(self._table)


class CudaLauncher:
    """Launches one kernel on one NVIDIA GPU; the caller has already made `device` the current one."""

    def __init__(
        self,
        artifact: KernelArtifact,
        binaries: Sequence[Binary],
        device: torch.device,
        driver: CudaDriver | None = None,
    ) -> None:
        self._artifact = artifact
        self._device = device
        self._index = device.index or 0
        self._driver = driver or cuda_driver()
        self._arguments = _Arguments(artifact, self._bind_context)
        # Tensor maps, pointers (tensors, then scratch), sizes.
        pointers = len(artifact.tensors) + len(artifact.scratch_bytes)
        maps = f"{TENSOR_MAP_BYTES}s" * len(artifact.tensor_maps)
        self._values = struct.Struct(f"={maps}{pointers}Q{len(artifact.dynamic_dims)}i")
        self._write = struct.Struct(f"{_CONFIG}{self._values.size}s").pack_into
        self._packed: dict[tuple[int, ...], tuple[bytes, bytes]] = {}
        self._function = self._load(binaries)
        self._launch = self._driver.launch
        self._maps = TensorMaps(artifact, self._driver) if artifact.tensor_maps else None
        self._scratch: dict[tuple[int, int], Tensor] = {}

    def launch(self, tensors: Sequence[Tensor], addresses: Sequence[int], plan: LaunchPlan) -> None:
        """Queue the kernel on `tensors` (inputs, then outputs), whose memory starts at `addresses`, behind the work
        of the current stream."""
        stream = _current_stream(self._index)
        scratch = self._scratch_addresses(stream, plan) if plan.scratch_bytes else ()
        key = (*addresses, *scratch, *plan.constants)
        packed = self._packed.get(key)
        if packed is None:
            if any(address % _POINTER_ALIGNMENT_BYTES for address in addresses):
                self._launch_on_copies(tensors, addresses, plan)
                return
            packed = self._pack(key, addresses, plan)
        memory, config, parameters = self._arguments.place
        self._write(memory, 0, packed[0], stream, packed[1])
        status = self._launch(config, self._function, parameters, None)
        if status:
            raise self._launch_error(str(self._driver.error("cuLaunchKernelEx", status)), plan)

    def _pack(self, key: tuple[int, ...], addresses: Sequence[int], plan: LaunchPlan) -> tuple[bytes, bytes]:
        """Shape and parameters of a launch as the driver reads them, kept for the next one with the same."""
        maps = self._maps(addresses, plan) if self._maps else ()
        try:
            shape = _SHAPE.pack(*plan.grid, *self._artifact.workgroup_size, self._artifact.shared_memory_bytes)
            packed = shape, self._values.pack(*maps, *key)
        except struct.error as error:
            raise self._launch_error(str(error), plan) from error
        if len(self._packed) >= _PACKED_KEPT:
            self._packed.clear()
        self._packed[key] = packed
        return packed

    def _launch_on_copies(self, tensors: Sequence[Tensor], addresses: Sequence[int], plan: LaunchPlan) -> None:
        """The same with aligned copies; torch frees them in stream order, so none is reused too early."""
        aligned = [
            tensor.clone() if address % _POINTER_ALIGNMENT_BYTES else tensor
            for tensor, address in zip(tensors, addresses, strict=True)
        ]
        self.launch(aligned, [tensor.data_ptr() for tensor in aligned], plan)
        for parameter, tensor, copy in zip(self._artifact.tensors, tensors, aligned, strict=True):
            if parameter.written and copy is not tensor:
                tensor.copy_(copy)

    def _load(self, binaries: Sequence[Binary]) -> int:
        """The first binary that the driver takes; PTX is compiled by it here, once per process and device."""
        refused: list[str] = []
        for binary in binaries:
            try:
                module = self._driver.load_module(binary.data)
            except DriverError as error:
                refused.append(f"{binary.label}.{binary.format}: {error.reason}")
                continue
            return self._prepared(module)
        raise ArtifactError(
            f"{self._artifact.name}: the CUDA driver takes none of its binaries ({'; '.join(refused)})."
        )

    def _prepared(self, module: int) -> int:
        try:
            function = self._driver.get_function(module, self._artifact.entry_point)
            if self._artifact.shared_memory_bytes > _SHARED_MEMORY_WITHOUT_OPT_IN_BYTES:
                self._driver.allow_shared_memory(function, self._artifact.shared_memory_bytes)
        except DriverError as error:
            raise ArtifactError(f"{self._artifact.name}: {error}.") from error
        return function

    def _scratch_addresses(self, stream: int, plan: LaunchPlan) -> list[int]:
        # One buffer per stream: launches of one stream run one after another, those of two streams may
        # overlap.
        buffers: list[Tensor] = []
        for number, size in enumerate(plan.scratch_bytes):
            buffer = self._scratch.get((stream, number))
            if buffer is None or buffer.numel() < size:
                buffer = torch.zeros(max(size, 1), dtype=torch.uint8, device=self._device)
                self._scratch[stream, number] = buffer
            buffers.append(buffer)
        return [buffer.data_ptr() for buffer in buffers]

    def _bind_context(self) -> None:
        # The driver API, unlike torch, takes the thread's context as it is, and a new thread has none.
        if self._device.type == "cuda":
            torch.cuda.set_device(self._index)

    def _launch_error(self, reason: str, plan: LaunchPlan) -> Exception:
        for axis, size, limit in zip("xyz", plan.grid, _GRID_LIMITS, strict=True):
            if size > limit:
                sizes = ", ".join(f"{name} = {value}" for name, value in plan.sizes.items())
                return ArgumentError(
                    f"{self._artifact.name}: {sizes} needs {size} workgroups along {axis}, a GPU has {limit}."
                )
        return RuntimeError(
            f"{self._artifact.name}: {reason} (grid {plan.grid}, workgroup {self._artifact.workgroup_size}, "
            f"{self._artifact.shared_memory_bytes} bytes of shared memory)."
        )
