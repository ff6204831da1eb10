"""PTX or a cubin and torch tensors go in; the kernel is queued on torch's current stream through the CUDA
driver.

A launch does not wait, so it can be captured in a CUDA graph once a first call has loaded the code.
"""

from __future__ import annotations

import ctypes
import struct
import threading
from collections.abc import Callable, Sequence
from functools import partial
from operator import sub
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor

from wavespec.runtime.artifact import TENSOR_MAP_BYTES, KernelArtifact
from wavespec.runtime.checks import ArgumentError
from wavespec.runtime.code import ArtifactError, Binary
from wavespec.runtime.cuda_driver import CudaDriver, DriverError, cuda_driver
from wavespec.runtime.launch_graphs import NODE
from wavespec.runtime.launch_plan import LaunchPlan
from wavespec.runtime.tensor_maps import TensorMaps

# https://docs.nvidia.com/cuda/cuda-c-programming-guide/: above this a kernel has to opt in.
_SHARED_MEMORY_WITHOUT_OPT_IN_BYTES: Final = 48 * 1024
# What the PTX assumes of pointers (`.ptr .align 16`); torch allocates at 512, slices start anywhere.
_POINTER_ALIGNMENT_BYTES: Final = 16
GRID_LIMITS: Final = (2**31 - 1, 65535, 65535)
"""Workgroups along x, y and z."""
_BOUND_KEPT: Final = 4096

# torch.cuda.current_stream() builds an object and costs 4 µs more.
_current_stream: Callable[[int], int] = getattr(torch._C, "_cuda_getCurrentRawStream", lambda index: 0)  # pyright: ignore

_is_capturing: Callable[[], bool] = (
    torch._C._cuda_isCurrentStreamCapturing if torch.backends.cuda.is_built() else bool  # pyright: ignore
)

# CUlaunchConfig of cuda.h, up to 64 bytes: grid, workgroup, shared memory; the stream; where attributes are, how many.
_CONFIG: Final = "7I4x2QI12x"
_CONFIG_BYTES: Final = struct.calcsize(f"={_CONFIG}")
# CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION: it may begin before the launch in front of it ends.
_MAY_BEGIN: Final = ctypes.create_string_buffer(struct.pack("=I4xi60x", 6, 1))
_SPARE_BYTES: Final = 1 << 18  # for some 500 launches whose last round is shared


class _Memory:
    """Where the driver reads one launch: the configuration, what parameters point to, the table by which it finds them,
    in the order of the kernel, and all that again for a graph. It is written once, so that threads may launch from it
    at the same time."""

    def __init__(self, artifact: KernelArtifact) -> None:
        tensors, maps, sizes = len(artifact.tensors), len(artifact.tensor_maps), artifact.constant_count
        pointers = tensors + len(artifact.scratch_bytes)
        first_map = _CONFIG_BYTES
        first_pointer = first_map + TENSOR_MAP_BYTES * maps
        first_size = first_pointer + 8 * pointers
        self._table_at = first_size + 4 * sizes + 4 * (sizes % 2)
        of_pointers = range(first_pointer, first_size, 8)
        self._offsets = (
            *of_pointers,
            *range(first_map, first_pointer, TENSOR_MAP_BYTES),
            *range(first_size, first_size + 4 * sizes, 4),
        )
        values = f"{TENSOR_MAP_BYTES}s" * maps + f"{pointers}Q{sizes}i{4 * (sizes % 2)}x"
        self._attributes = (ctypes.addressof(_MAY_BEGIN), 1) if artifact.waits else (0, 0)
        self._node_at = self._table_at + 8 * len(self._offsets)
        self._format = struct.Struct(f"={_CONFIG}{values}{len(self._offsets)}Q{NODE}")

    def write(self, function: int, shape: Sequence[int], stream: int, values: Sequence[object]) -> tuple[Any, Any, Any]:
        """Configuration and table, as `CudaDriver.launch` takes them, and the node of a graph; they hold the memory.

        Errors: `struct.error` for a number that does not fit.
        """
        memory = ctypes.create_string_buffer(self._format.size + _CONFIG_BYTES)
        skipped = -ctypes.addressof(memory) % _CONFIG_BYTES  # tensor maps are aligned to 64 bytes
        start = ctypes.addressof(memory) + skipped
        table = (start + offset for offset in self._offsets)
        node = (function, *shape, start + self._table_at)
        self._format.pack_into(memory, skipped, *shape, stream, *self._attributes, *values, *table, *node)
        config, table_of, node_of = (ctypes.byref(memory, skipped + at) for at in (0, self._table_at, self._node_at))
        return config, table_of, node_of


def _nothing(*_: int) -> int:
    return 1


def _unless_captured(launch: Callable[[], int], scratch: Sequence[Tensor]) -> int:
    """A launch with the scratch memory of a stream, which is kept as long as the launch is."""
    del scratch
    return 1 if _is_capturing() else launch()


class _Bound(NamedTuple):
    """A launch whose arguments are written."""

    launch: partial[int]
    """Of the kernel."""
    often: Callable[[], int]
    """The same, for who makes it many times."""


class _Thread(threading.local):
    """Exists in a thread in which `prepare` was called."""

    def __init__(self, prepare: Callable[[], None]) -> None:
        prepare()
        self.is_prepared = True


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
        self._thread = _Thread(self._bind_context)
        self._memory = _Memory(artifact)
        self._bound: dict[tuple[int, ...], _Bound] = {}
        self._function = self._load(binaries)
        self._launch = self._driver.launch
        self._maps = TensorMaps(artifact, self._driver) if artifact.tensor_maps else None
        self._scratch: dict[tuple[int, int], Tensor] = {}
        self._spare = torch.empty(0, dtype=torch.uint8)
        """Zeros for launches that graphs are captured of, each of which has some to itself."""
        self._of_graphs: list[Tensor] = []
        """Where those are: a graph does not say when it ends."""

    def launch(self, tensors: Sequence[Tensor], addresses: Sequence[int], plan: LaunchPlan) -> None:
        """Queue the kernel on `tensors` (inputs, then outputs), whose memory starts at `addresses`, behind the work
        of the current stream."""
        stream = _current_stream(self._index)
        scratch = self._scratch_of(stream, plan) if plan.scratch_bytes else ()
        bound = self._bound_launch(stream, addresses, tuple(map(Tensor.data_ptr, scratch)), plan)
        if bound is None:
            self._launch_on_copies(tensors, addresses, plan)
        elif self._thread.is_prepared and (status := bound.launch()):
            raise self._launch_error(str(self._driver.error("cuLaunchKernelEx", status)), plan)

    def bind(self, addresses: Sequence[int], plan: LaunchPlan) -> Callable[..., int]:
        """The launch on the current stream, without the check of the thread's context: a thread that has none gets the
        driver's error."""
        if len(addresses) < len(self._artifact.tensors):
            return _nothing  # what a launch reads is never changed
        stream = _current_stream(self._index)
        if not plan.scratch_bytes:
            bound = self._bound_launch(stream, addresses, (), plan)
            return bound.often if bound else _nothing
        if _is_capturing():
            return _nothing  # scratch memory is made anew for a graph
        scratch = self._scratch_of(stream, plan)
        bound = self._bound_launch(stream, addresses, tuple(map(Tensor.data_ptr, scratch)), plan)
        return partial(_unless_captured, bound.often, scratch) if bound else _nothing

    def _bound_launch(
        self, stream: int, addresses: Sequence[int], scratch: Sequence[int], plan: LaunchPlan
    ) -> _Bound | None:
        """Kept for the next one with the same; None where an address is not one that the code takes."""
        key = (stream, *addresses, *scratch, *plan.constants)
        bound = self._bound.get(key)
        if bound is not None:
            return bound
        pointers = tuple(map(sub, addresses, plan.starts)) if plan.starts else addresses
        if any(pointer % _POINTER_ALIGNMENT_BYTES for pointer in pointers):
            return None
        # The driver encodes maps in the thread's context, which may have none yet.
        maps = self._maps(addresses, plan) if self._maps and self._thread.is_prepared else ()
        shape = (*plan.grid, *plan.workgroup_size, plan.shared_memory_bytes)
        try:
            written = self._memory.write(self._function, shape, stream, (*maps, *pointers, *scratch, *plan.constants))
        except struct.error as error:
            raise self._launch_error(str(error), plan) from error
        if len(self._bound) >= _BOUND_KEPT:
            self._bound.clear()
        config, table, node = written
        launch = partial(self._launch, config, ctypes.c_void_p.from_param(self._function), table, None)
        graphs = self._driver.graphs
        bound = self._bound[key] = _Bound(launch, graphs.when_often(launch, node, stream) if graphs else launch)
        return bound

    def _launch_on_copies(self, tensors: Sequence[Tensor], addresses: Sequence[int], plan: LaunchPlan) -> None:
        """The same with aligned copies; torch frees them in stream order, so none is reused too early."""
        aligned = [
            tensor.clone() if address % _POINTER_ALIGNMENT_BYTES and not parameter.is_strided else tensor
            for parameter, tensor, address in zip(self._artifact.tensors, tensors, addresses, strict=True)
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

    def _scratch_of(self, stream: int, plan: LaunchPlan) -> list[Tensor]:
        """Zeros, which a launch leaves behind as well, and memory that may hold anything.

        One buffer per stream: launches of one stream run one after another, those of two streams may overlap.  A graph
        may run beside the stream that it was captured on, so that each of its launches has memory of the graph.
        Memory that grows is at least doubled: bound launches keep what they were made with, all of them together no
        more than the last of it once again.
        """
        zeroed = len(plan.scratch_bytes) - self._artifact.unset_scratch
        if _is_capturing():
            of_graph = [self._zeros_of_graph(size) for size in plan.scratch_bytes[:zeroed]]
            return of_graph + [self._unset(size) for size in plan.scratch_bytes[zeroed:]]
        if self._spare.numel() < _SPARE_BYTES // 2:
            self._spare = self._zeros(_SPARE_BYTES)
            self._of_graphs.append(self._spare)
        buffers: list[Tensor] = []
        for number, size in enumerate(plan.scratch_bytes):
            buffer = self._scratch.get((stream, number))
            if buffer is None or buffer.numel() < size:
                room = size if buffer is None else max(size, 2 * buffer.numel())
                buffer = self._zeros(room) if number < zeroed else self._unset(room)
                self._scratch[stream, number] = buffer
            buffers.append(buffer)
        return buffers

    def _zeros_of_graph(self, size: int) -> Tensor:
        """Zeros that are there before the graph runs, which so has no step that writes them; else those of a step."""
        aligned = -(-size // _POINTER_ALIGNMENT_BYTES) * _POINTER_ALIGNMENT_BYTES
        if aligned > self._spare.numel():
            return self._zeros(size)
        own, self._spare = self._spare[:size], self._spare[aligned:]
        return own

    def _unset(self, size: int) -> Tensor:
        return torch.empty(max(size, 1), dtype=torch.uint8, device=self._device)

    def _zeros(self, size: int) -> Tensor:
        return torch.zeros(max(size, 1), dtype=torch.uint8, device=self._device)

    def _bind_context(self) -> None:
        # The driver API, unlike torch, takes the thread's context as it is, and a new thread has none.
        if self._device.type == "cuda":
            torch.cuda.set_device(self._index)

    def _launch_error(self, reason: str, plan: LaunchPlan) -> Exception:
        for axis, size, limit in zip("xyz", plan.grid, GRID_LIMITS, strict=True):
            if size > limit:
                sizes = ", ".join(f"{name} = {value}" for name, value in plan.sizes.items())
                return ArgumentError(
                    f"{self._artifact.name}: {sizes} needs {size} workgroups along {axis}, a GPU has {limit}."
                )
        return RuntimeError(
            f"{self._artifact.name}: {reason} (grid {plan.grid}, workgroup {plan.workgroup_size}, "
            f"{plan.shared_memory_bytes} bytes of shared memory)."
        )
