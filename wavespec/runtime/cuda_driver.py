"""The few functions of NVIDIA's driver that loading and launching a kernel takes, called in `libcuda` itself.

Through ctypes and not `cuda.bindings`, so that nothing has to be installed beside torch; the call of a launch costs the
same, 0.3 µs, and a tensor map, made once, 3 µs instead of 2.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from typing import Any, Final

from wavespec.runtime.code import ArtifactError
from wavespec.runtime.launch_graphs import LaunchGraphs

_LIBRARY: Final = "libcuda.so.1"
_POINTER, _U32, _INT = ctypes.c_void_p, ctypes.c_uint32, ctypes.c_int
_MAX_DYNAMIC_SHARED_SIZE_BYTES: Final = 8  # CU_FUNC_ATTRIBUTE_...


class DriverError(RuntimeError):
    """A call that the driver refused; `reason` is its name for that, such as `CUDA_ERROR_OUT_OF_MEMORY`."""

    def __init__(self, function: str, reason: str) -> None:
        super().__init__(f"{function}: {reason}")
        self.reason = reason


class CudaDriver:
    """Handles (of modules, functions, streams) and addresses are plain integers.

    `launch(config, function, parameters, extra)` and `encode_tiled(...)` are `cuLaunchKernelEx` and
    `cuTensorMapEncodeTiled`: they return a status, 0 where all is well, else see `error`.  What `launch` takes are
    parameters of ctypes (`byref`, `c_void_p.from_param`): made once, they take 0.12 µs less a call than integers.
    """

    def __init__(self, library: Any = None) -> None:
        self._library = library or _open()
        self.launch = self._function("cuLaunchKernelEx")
        self._load_data = self._function("cuModuleLoadData", _POINTER, ctypes.c_char_p)
        self._get_function = self._function("cuModuleGetFunction", _POINTER, _POINTER, ctypes.c_char_p)
        self._set_attribute = self._function("cuFuncSetAttribute", _POINTER, _INT, _INT)
        self._get_error_name = self._function("cuGetErrorName", _INT, _POINTER)

    @functools.cached_property
    def graphs(self) -> LaunchGraphs | None:
        """None of drivers before CUDA 12."""
        try:
            return LaunchGraphs(self._function)
        except ArtifactError:
            return None

    @functools.cached_property
    def encode_tiled(self) -> Callable[..., int]:
        """Looked up when a kernel has tensor maps: drivers before CUDA 12 have no such function."""
        arrays = [_POINTER] * 5  # address, sizes, strides, box, steps
        return self._function("cuTensorMapEncodeTiled", _POINTER, _INT, _U32, *arrays, _INT, _INT, _INT, _INT)

    @functools.cached_property
    def encode_windows(self) -> Callable[..., int]:
        """`encode_tiled` for maps by which boxes are made of windows: two corners, channels and pixels for the box."""
        arrays = [_POINTER] * 3  # address, sizes, strides
        part = [_POINTER, _POINTER, _U32, _U32, _POINTER]
        layout = [_INT] * 4
        return self._function("cuTensorMapEncodeIm2col", _POINTER, _INT, _U32, *arrays, *part, *layout)

    def load_module(self, image: bytes) -> int:
        """Load a cubin or PTX into the current context; PTX is read up to the zero byte that Python has after it."""
        module = _POINTER()
        self._check("cuModuleLoadData", self._load_data(ctypes.byref(module), image))
        return module.value or 0

    def get_function(self, module: int, name: str) -> int:
        """The kernel `name` of a module."""
        function = _POINTER()
        self._check("cuModuleGetFunction", self._get_function(ctypes.byref(function), module, name.encode()))
        return function.value or 0

    def allow_shared_memory(self, function: int, size: int) -> None:
        """Let a kernel be launched with up to `size` bytes of dynamic shared memory."""
        status = self._set_attribute(function, _MAX_DYNAMIC_SHARED_SIZE_BYTES, size)
        self._check("cuFuncSetAttribute", status)

    def error(self, function: str, status: int) -> DriverError:
        """What `status`, returned by `function`, means."""
        name = ctypes.c_char_p()
        unknown = self._get_error_name(status, ctypes.byref(name)) or name.value is None
        return DriverError(function, f"error {status}" if unknown else (name.value or b"").decode())

    def _check(self, function: str, status: int) -> None:
        if status:
            raise self.error(function, status)

    def _function(self, name: str, *argument_types: Any) -> Callable[..., int]:
        try:
            function = getattr(self._library, name)
        except AttributeError:
            raise ArtifactError(f"The NVIDIA driver of this machine is too old: it has no {name}.") from None
        function.restype = _INT
        if argument_types:
            function.argtypes = argument_types
        return function


@functools.cache
def cuda_driver() -> CudaDriver:
    """The driver of this machine; `ArtifactError` where there is none."""
    return CudaDriver()


def _open() -> ctypes.CDLL:
    try:
        # CDLL lets other threads run while the driver waits for room in its queue.
        return ctypes.CDLL(_LIBRARY)
    except OSError as error:
        raise ArtifactError(f"Running on an NVIDIA GPU needs the driver's library {_LIBRARY}: {error}.") from error
