"""A vmfb and torch tensors go in; the kernel runs through IREE's runtime, reading and writing the tensors'
own memory.

Measured on a 2-core CPU with IREE 3.13: 5 µs a call on the caller's thread (`local-sync`; 3 where its arguments
are bound), 10-12 µs on the worker threads (`local-task`). So a launch of one workgroup, which has no use for
a second thread, stays on the caller's.
"""

# IREE ships its types without a marker that they are complete, and they lack that a buffer is a VmRef.
# pyright: reportMissingTypeStubs=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportArgumentType=false, reportPrivateImportUsage=false

from __future__ import annotations

import ctypes
import functools
import os
import threading
from collections.abc import Callable, Sequence
from operator import sub
from pathlib import Path
from typing import Any, Final

import iree.runtime as iree
import torch
from iree.runtime import HalBuffer, HalDevice, VmContext, VmFunction
from iree.runtime._binding import disable_leak_checker
from torch import Tensor
from torch.utils.dlpack import to_dlpack

from wavespec.runtime.artifact import KernelArtifact
from wavespec.runtime.caller import launch_nothing
from wavespec.runtime.checks import DTYPES
from wavespec.runtime.code import ArtifactError, Binary
from wavespec.runtime.launch_plan import LaunchPlan

# iree/hal/buffer_heap.c refuses to import memory that is aligned to less. torch aligns what it allocates to
# 64, slices are free.
_IMPORT_ALIGNMENT_BYTES: Final = 64
# DLPack of IREE 3.13 has no codes for these: they travel as bytes, which is all a kernel's binding is.
_NOT_IN_DLPACK: Final = frozenset(
    dtype for name, dtype in DTYPES.items() if name.startswith(("f4", "f8")) or name == "bool"
)

# Registered torch operators keep their kernels until the process ends, which nanobind would report as a leak
# of ours.
disable_leak_checker()

WORKER_LOCAL_BYTES: Final = 4 << 20
"""Memory of a CPU worker for packed panels; IREE's own choice is the size of the L2 cache, and a dispatch that
wants more fails."""
WORKER_STACK_BYTES: Final = 4 << 20
"""Stack of a CPU worker; kernels may keep tiles on it, where IREE's own 128 KiB would end in a crash.

Beyond 32 KiB a build needs `--iree-llvmcpu-stack-allocation-limit`, which takes powers of two only.
"""

_state = {"used": False, "forked": False}


class _Device:
    """One IREE device with what every kernel on it shares: a lock, and scratch memory that grows to the
    largest ask.

    An IREE context is for one thread at a time, and Python releases its own lock in `invoke`: hence `lock`.
    """

    def __init__(self, device: HalDevice) -> None:
        self.device = device
        self.import_tensor = device.from_dlpack_capsule
        self.lock = threading.Lock()
        self.placeholder = self._allocate(_IMPORT_ALIGNMENT_BYTES)
        self._scratch: list[tuple[int, HalBuffer]] = []

    def scratch(self, index: int, size: int) -> HalBuffer:
        """A buffer of at least `size` bytes, kept for the next call; hold `lock` until the call is over."""
        while len(self._scratch) <= index:
            self._scratch.append((_IMPORT_ALIGNMENT_BYTES, self.placeholder))
        if self._scratch[index][0] < size:
            self._scratch[index] = (size, self._allocate(size))
        return self._scratch[index][1]

    def memory(self, address: int, size: int) -> HalBuffer:
        """Memory that somebody else owns."""
        there = torch.frombuffer((ctypes.c_char * size).from_address(address), dtype=torch.uint8)
        return self.import_tensor(to_dlpack(there)).get_buffer()

    def _allocate(self, size: int) -> HalBuffer:
        memory = int(iree.MemoryType.DEVICE_LOCAL) | int(iree.MemoryType.DEVICE_VISIBLE)
        return self.device.allocator.allocate_buffer(memory, int(iree.BufferUsage.DEFAULT), size)


def _memory_of(tensor: Tensor, start: int, size: int) -> Tensor:
    """The bytes of a tensor of any strides, up to the last of its elements, and ``start`` bytes in front of them."""
    first = tensor.storage_offset() * tensor.element_size() - start
    if tensor.device.type == "cpu" and first < 0:  # memory that was not made by torch may begin anywhere
        memory = (ctypes.c_char * (start + size)).from_address(tensor.data_ptr() - start)
        return torch.frombuffer(memory, dtype=torch.uint8)
    bytes_ = torch.empty(0, dtype=torch.uint8, device=tensor.device)
    return bytes_.set_(tensor.untyped_storage(), first, (start + size,), (1,))


class IreeLauncher:
    """Launches one kernel on one device; calls return when the results are in memory."""

    def __init__(self, artifact: KernelArtifact, binary: Binary, device: torch.device) -> None:
        if binary.format != "vmfb":
            raise ArtifactError(f"{artifact.name}: IREE needs a vmfb, '{binary.label}' is a {binary.format}.")
        self._code = binary.data
        # Made here, not at import, and not where the code is missing: IREE 3.13 crashes at exit over a list made before
        # its instance.
        self._no_results = iree.VmVariantList(0)
        self._artifact = artifact
        self._binary = binary
        self._hip_device = device if artifact.backend == "hip" else None
        self._as_bytes = tuple(DTYPES[tensor.dtype] in _NOT_IN_DLPACK for tensor in artifact.tensors)
        self._has_bytes = any(self._as_bytes)
        self._is_written = tuple(tensor.written for tensor in artifact.tensors)
        self._serial: tuple[_Device, VmContext, VmFunction] | None = None
        self._parallel: tuple[_Device, VmContext, VmFunction] | None = None
        self._one_thread = artifact.backend == "cpu" and torch.get_num_threads() == 1

    def launch(self, tensors: Sequence[Tensor], addresses: Sequence[int], plan: LaunchPlan) -> None:
        """Run on inputs, then outputs, of the sizes and strides of `plan`, their memory at `addresses`."""
        if _state["forked"]:
            raise RuntimeError(
                f"{self._artifact.name}: this process was forked after its parent ran a kernel, and IREE's "
                "threads do not survive a fork; start workers with the 'spawn' or 'forkserver' method."
            )
        if self._hip_device is not None:
            torch.cuda.current_stream(self._hip_device).synchronize()
        device, context, function = self._place(plan)
        import_tensor = device.import_tensor
        copied: list[tuple[int, Tensor]] = []
        sizes = plan.tensor_bytes(self._artifact.tensors) if plan.strides else ()
        arguments = iree.VmVariantList(len(tensors) + len(plan.constants) + 2 * len(plan.scratch_bytes))
        push = arguments.push_ref
        for index, (tensor, address) in enumerate(zip(tensors, addresses, strict=True)):
            if address and plan.strides and self._artifact.tensors[index].is_strided:
                push(import_tensor(to_dlpack(_memory_of(tensor, plan.starts[index], sizes[index]))).get_buffer())
            elif address and not address % _IMPORT_ALIGNMENT_BYTES and not self._has_bytes:
                push(import_tensor(to_dlpack(tensor)).get_buffer())
            elif not address:  # An empty tensor: IREE crashes on a null pointer.
                push(device.placeholder)
            else:
                if address % _IMPORT_ALIGNMENT_BYTES:
                    tensor = tensor.clone()
                    copied.append((index, tensor))
                push(
                    import_tensor(to_dlpack(tensor.view(torch.uint8) if self._as_bytes[index] else tensor)).get_buffer()
                )
        with device.lock:
            for index, size in enumerate(plan.scratch_bytes):
                push(device.scratch(index, size))
            for constant in plan.constants:
                arguments.push_int(constant)
            for size in plan.scratch_bytes:
                arguments.push_int(size)
            context.invoke(function, arguments, self._no_results)
        for index, tensor in copied:
            if self._is_written[index]:
                tensors[index].copy_(tensor)

    def bind(self, addresses: Sequence[int], plan: LaunchPlan) -> Callable[[], bool]:
        """The launch, with what IREE needs of the memory made once; it holds no memory that tensors have."""
        starts, sizes = plan.starts or (0,) * len(addresses), plan.tensor_bytes(self._artifact.tensors)
        if len(addresses) < len(sizes):
            return launch_nothing  # lists of arguments are not changed
        movable = any(place % _IMPORT_ALIGNMENT_BYTES for place in map(sub, addresses, starts))
        if movable or plan.scratch_bytes or self._hip_device is not None or _state["forked"]:
            return launch_nothing
        device, context, function = self._place(plan)
        arguments = iree.VmVariantList(len(addresses) + len(plan.constants))
        for address, start, size in zip(addresses, starts, sizes, strict=True):
            arguments.push_ref(device.memory(address - start, start + size) if size else device.placeholder)
        for constant in plan.constants:
            arguments.push_int(constant)
        invoke, lock, results = context.invoke, device.lock, self._no_results

        def launch() -> bool:
            if _state["forked"]:
                return True
            with lock:
                invoke(function, arguments, results)
            return False

        return launch

    def _place(self, plan: LaunchPlan) -> tuple[_Device, VmContext, VmFunction]:
        if self._hip_device is None and (plan.workgroups == 1 or self._one_thread):
            return self._serial or self._load_serial()
        return self._parallel or self._load_parallel()

    def _load_serial(self) -> tuple[_Device, VmContext, VmFunction]:
        self._serial = self._load(_local_device("local-sync"))
        return self._serial

    def _load_parallel(self) -> tuple[_Device, VmContext, VmFunction]:
        if self._hip_device is None:
            self._parallel = self._load(_local_device("local-task"))
        else:
            self._parallel = self._load(_hip_device(self._hip_device.index or 0))
        return self._parallel

    def _load(self, device: _Device) -> tuple[_Device, VmContext, VmFunction]:
        instance = _instance()
        try:
            # copy_buffer: the module outlives this call, and needs an alignment that bytes do not have.
            module = iree.VmModule.copy_buffer(instance, self._code)
            context = VmContext(instance, [iree.create_hal_module(instance, device.device), module])
            function = module.lookup_function(self._artifact.entry_point)
        except (RuntimeError, ValueError) as error:
            raise ArtifactError(f"{self._artifact.name}: IREE cannot load '{self._binary.label}': {error}") from error
        if function is None:
            raise ArtifactError(f"{self._artifact.name}: '{self._binary.label}' has no '{self._artifact.entry_point}'.")
        return device, context, function


@functools.cache
def _instance() -> Any:
    return iree.VmInstance()


@functools.cache
def _local_device(driver: str) -> _Device:
    if driver == "local-task":
        _set_worker_flags()
    _state["used"] = True
    return _Device(iree.get_driver(driver).create_default_device())


@functools.cache
def _hip_device(index: int) -> _Device:
    driver = iree.get_driver("hip")
    available = driver.query_available_devices()
    if index >= len(available):
        raise ArtifactError(f"IREE's hip driver sees {len(available)} devices, torch asks for number {index}.")
    return _Device(driver.create_device(available[index]["device_id"], {}))


def _set_worker_flags() -> None:
    """As many workers as torch has threads now; IREE reads that once, at the first parallel launch."""
    iree.flags.parse_flags(
        f"--task_worker_stack_size={WORKER_STACK_BYTES}", f"--task_worker_local_memory={WORKER_LOCAL_BYTES}"
    )
    if "task_topology" in os.environ.get("IREE_PY_RUNTIME_FLAGS", ""):
        return
    threads = torch.get_num_threads()
    # Pinned to cores only where we have all of them: two processes of one thread each must not meet on the
    # same core.
    if threads >= _physical_cores():
        iree.flags.parse_flags("--task_topology_nodes=all", f"--task_topology_max_group_count={threads}")
    else:
        iree.flags.parse_flags(f"--task_topology_group_count={threads}")


def _physical_cores() -> int:
    """Cores that this process may use, hardware threads of one core counted once."""
    if not hasattr(os, "sched_getaffinity"):
        return os.cpu_count() or 1
    cpus = os.sched_getaffinity(0)
    siblings: set[str] = set()
    for cpu in cpus:
        try:
            siblings.add(Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list").read_text())
        except OSError:
            return len(cpus)
    return len(siblings)


def _after_fork() -> None:
    _state["forked"] = _state["used"]


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
