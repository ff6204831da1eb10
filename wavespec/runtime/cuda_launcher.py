"""PTX or a cubin and torch tensors go in; the kernel is queued on torch's current stream through the CUDA
driver.

A launch neither allocates nor waits, so it can be captured in a CUDA graph once a first call has loaded the
code (and, where the kernel has scratch memory, once it ran on that stream).
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Sequence
from typing import Any, Final

import torch
from torch import Tensor

from wavespec.runtime.artifact import ArtifactError, Binary, KernelArtifact
from wavespec.runtime.checks import ArgumentError
from wavespec.runtime.launch_plan import LaunchPlan

# https://docs.nvidia.com/cuda/cuda-c-programming-guide/: above this a kernel has to opt in.
_SHARED_MEMORY_WITHOUT_OPT_IN_BYTES: Final = 48 * 1024
# What the PTX assumes of pointers (`.ptr .align 16`); torch allocates at 512, slices start anywhere.
_POINTER_ALIGNMENT_BYTES: Final = 16
_GRID_LIMITS: Final = (2**31 - 1, 65535, 65535)


class _Parameters(threading.local):
    """Kernel parameters of the calling thread: two threads that launch at once must not write the same slots.

    `slots` are pointers (tensors, then scratch) followed by 32-bit sizes; `address` is the `void**` the
    driver reads.
    """

    def __init__(self, pointers: int, constants: int, prepare_thread: Callable[[], None]) -> None:
        prepare_thread()
        self.pointers = (ctypes.c_uint64 * pointers)()
        self.constants = (ctypes.c_int32 * max(constants, 1))()
        addresses = [ctypes.addressof(self.pointers) + 8 * i for i in range(pointers)]
        addresses += [ctypes.addressof(self.constants) + 4 * i for i in range(constants)]
        self._table = (ctypes.c_void_p * len(addresses))(*addresses)
        self.address = ctypes.addressof(self._table)


class CudaLauncher:
    """Launches one kernel on one NVIDIA GPU; the caller has already made `device` the current one.

    `driver` is `cuda.bindings.driver`, or a stand-in for tests.
    """

    def __init__(
        self, artifact: KernelArtifact, binaries: Sequence[Binary], device: torch.device, driver: Any = None
    ) -> None:
        self._artifact = artifact
        self._device = device
        self._index = device.index or 0
        self._cuda = driver if driver is not None else _import_driver()
        self._parameters = _Parameters(
            len(artifact.tensors) + len(artifact.scratch_bytes),
            len(artifact.dynamic_dims),
            self._bind_context,
        )
        self._function = self._load(binaries)
        self._launch = self._cuda.cuLaunchKernel
        self._scratch: dict[tuple[int, int], Tensor] = {}

    def launch(self, tensors: Sequence[Tensor], plan: LaunchPlan) -> None:
        """Queue the kernel on `tensors` (inputs, then outputs) behind the work of the current stream."""
        parameters = self._parameters
        pointers, constants = parameters.pointers, parameters.constants
        stream = _current_stream(self._index)
        index = all_bits = 0
        for tensor in tensors:
            address = tensor.data_ptr()
            pointers[index] = address
            all_bits |= address
            index += 1
        if all_bits % _POINTER_ALIGNMENT_BYTES:
            self._launch_on_copies(tensors, plan)
            return
        for number, size in enumerate(plan.scratch_bytes):
            pointers[index] = self._scratch_address(stream, number, size)
            index += 1
        for number, constant in enumerate(plan.constants):
            constants[number] = constant
        grid_x, grid_y, grid_z = plan.grid
        threads_x, threads_y, threads_z = self._artifact.workgroup_size
        (status,) = self._launch(
            self._function,
            grid_x,
            grid_y,
            grid_z,
            threads_x,
            threads_y,
            threads_z,
            self._artifact.shared_memory_bytes,
            stream,
            parameters.address,
            0,
        )
        if status:
            self._raise_launch_error(status, plan)

    def _launch_on_copies(self, tensors: Sequence[Tensor], plan: LaunchPlan) -> None:
        """The same with aligned copies; torch frees them in stream order, so none is reused too early."""
        aligned = [t.clone() if t.data_ptr() % _POINTER_ALIGNMENT_BYTES else t for t in tensors]
        self.launch(aligned, plan)
        for parameter, tensor, copy in zip(self._artifact.tensors, tensors, aligned, strict=True):
            if parameter.output and copy is not tensor:
                tensor.copy_(copy)

    def _load(self, binaries: Sequence[Binary]) -> Any:
        """The first binary that the driver takes; PTX is compiled by it here, once per process and device."""
        refused: list[str] = []
        for binary in binaries:
            # PTX is text, which the driver reads up to a zero byte.
            image = binary.data + b"\0" if binary.format == "ptx" else binary.data
            status, module = self._cuda.cuModuleLoadData(image)
            if status:
                refused.append(f"{binary.label}.{binary.format}: {self._error_name(status)}")
                continue
            function = self._call("cuModuleGetFunction", module, self._artifact.entry_point.encode())
            if self._artifact.shared_memory_bytes > _SHARED_MEMORY_WITHOUT_OPT_IN_BYTES:
                attribute = self._cuda.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
                self._call("cuFuncSetAttribute", function, attribute, self._artifact.shared_memory_bytes)
            return function
        raise ArtifactError(
            f"{self._artifact.name}: the CUDA driver takes none of its binaries ({'; '.join(refused)})."
        )

    def _call(self, name: str, *arguments: Any) -> Any:
        status, *results = getattr(self._cuda, name)(*arguments)
        if status:
            raise ArtifactError(f"{self._artifact.name}: {name}: {self._error_name(status)}.")
        return results[0] if results else None

    def _scratch_address(self, stream: int, number: int, size: int) -> int:
        # One buffer per stream: launches of one stream run one after another, those of two streams may
        # overlap.
        buffer = self._scratch.get((stream, number))
        if buffer is None or buffer.numel() < size:
            buffer = torch.zeros(max(size, 1), dtype=torch.uint8, device=self._device)
            self._scratch[stream, number] = buffer
        return buffer.data_ptr()

    def _bind_context(self) -> None:
        # The driver API, unlike torch, takes the thread's context as it is, and a new thread has none.
        if self._device.type == "cuda":
            torch.cuda.set_device(self._index)

    def _raise_launch_error(self, status: Any, plan: LaunchPlan) -> None:
        for axis, size, limit in zip("xyz", plan.grid, _GRID_LIMITS, strict=True):
            if size > limit:
                sizes = ", ".join(f"{name} = {value}" for name, value in plan.sizes.items())
                raise ArgumentError(
                    f"{self._artifact.name}: {sizes} needs {size} workgroups along {axis}, a GPU has {limit}."
                )
        raise RuntimeError(
            f"{self._artifact.name}: cuLaunchKernel: {self._error_name(status)} (grid {plan.grid}, "
            f"workgroup {self._artifact.workgroup_size}, "
            f"{self._artifact.shared_memory_bytes} bytes of shared memory)."
        )

    def _error_name(self, status: Any) -> str:
        return str(getattr(status, "name", status))


def _current_stream(device_index: int) -> int:
    # torch.cuda.current_stream() builds an object and costs 4 µs more.
    return torch._C._cuda_getCurrentRawStream(device_index)  # pyright: ignore[reportPrivateUsage]


def _import_driver() -> Any:
    try:
        from cuda.bindings import driver  # pyright: ignore[reportMissingImports, reportUnknownVariableType]
    except ImportError as error:
        raise ArtifactError(
            "Running on an NVIDIA GPU needs the package 'cuda-bindings': pip install cuda-bindings."
        ) from error
    return driver  # pyright: ignore[reportUnknownVariableType]
