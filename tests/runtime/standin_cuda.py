"""A stand-in for `libcuda`: C functions that write down what a GPU's driver would have read from memory."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any, Final

from wavespec.runtime.cuda_driver import CudaDriver

MODULE: Final = 0x1000
FUNCTION: Final = 0x2000
_POINTER, _INT, _U32 = ctypes.c_void_p, ctypes.c_int, ctypes.c_uint32
_NAMES: Final = {1: b"CUDA_ERROR_INVALID_VALUE", 209: b"CUDA_ERROR_NO_BINARY_FOR_GPU"}


class LaunchConfig(ctypes.Structure):
    """`CUlaunchConfig` of cuda.h."""

    _fields_ = (
        ("grid", _U32 * 3),
        ("workgroup", _U32 * 3),
        ("shared", _U32),
        ("stream", _POINTER),
        ("attributes", _POINTER),
        ("attribute_count", _U32),
    )


class StandInCuda:
    """What `CudaDriver` takes for the library.

    Args:
        parameters: what the kernel takes, in order: `p` for a pointer, `m` for a tensor map, `i` for a 32-bit integer.
        refused: images that do not load.
        status: what a launch returns.
    """

    def __init__(self, parameters: str, refused: Sequence[bytes] = (), status: int = 0) -> None:
        self.parameters = parameters
        self.refused = refused
        self.status = status
        self.calls: list[tuple[Any, ...]] = []
        self.launches: list[dict[str, Any]] = []
        self.maps: list[dict[str, Any]] = []
        for name, method, arguments in (
            ("cuModuleLoadData", self._load, [_POINTER, ctypes.c_char_p]),
            ("cuModuleGetFunction", self._function, [_POINTER, _POINTER, ctypes.c_char_p]),
            ("cuFuncSetAttribute", self._attribute, [_POINTER, _INT, _INT]),
            ("cuGetErrorName", self._error_name, [_INT, _POINTER]),
            ("cuLaunchKernelEx", self._launch, [_POINTER] * 4),
            ("cuTensorMapEncodeTiled", self._encode, [_POINTER, _INT, _U32, *[_POINTER] * 5, *[_INT] * 4]),
            (
                "cuTensorMapEncodeIm2col",
                self._encode_windows,
                [_POINTER, _INT, _U32, *[_POINTER] * 5, _U32, _U32, _POINTER, *[_INT] * 4],
            ),
        ):
            setattr(self, name, ctypes.CFUNCTYPE(_INT, *arguments)(method))

    @property
    def driver(self) -> CudaDriver:
        return CudaDriver(self)

    def _load(self, module: int, image: bytes) -> int:
        self.calls.append(("load", image))
        _POINTER.from_address(module).value = MODULE
        return 209 if image in self.refused else 0

    def _function(self, function: int, module: int, name: bytes) -> int:
        self.calls.append(("function", module, name))
        _POINTER.from_address(function).value = FUNCTION
        return 0

    def _attribute(self, function: int, attribute: int, value: int) -> int:
        self.calls.append(("attribute", function, attribute, value))
        return 0

    def _error_name(self, status: int, name: int) -> int:
        ctypes.c_char_p.from_address(name).value = _NAMES.get(status)
        return 0 if status in _NAMES else 1

    def _launch(self, config: int, function: int, parameters: int, extra: int | None) -> int:
        read = LaunchConfig.from_address(config)
        table = (_POINTER * len(self.parameters)).from_address(parameters)
        values: dict[str, list[Any]] = {"p": [], "m": [], "i": []}
        for kind, address in zip(self.parameters, table, strict=True):
            if kind == "p":
                values[kind].append(ctypes.c_uint64.from_address(address).value)
            elif kind == "m":
                assert address % 64 == 0
                values[kind].append(ctypes.string_at(address, 128))
            else:
                values[kind].append(ctypes.c_int32.from_address(address).value)
        self.launches.append(
            {
                "function": function,
                "grid": list(read.grid),
                "workgroup": list(read.workgroup),
                "shared": read.shared,
                "stream": read.stream,
                "attributes": (read.attributes, read.attribute_count, extra),
                "pointers": values["p"],
                "maps": values["m"],
                "sizes": values["i"],
                "place": config,
            }
        )
        return self.status

    def _encode_windows(self, place: int, dtype: int, rank: int, address: int, *rest: int) -> int:
        sizes, strides, lower, upper, columns, rows, steps, *_ = rest
        corners = [list((_INT * (rank - 2)).from_address(corner)) for corner in (lower, upper)]
        self.maps.append(
            {
                "sizes": list((ctypes.c_uint64 * rank).from_address(sizes)),
                "strides": list((ctypes.c_uint64 * (rank - 1)).from_address(strides)),
                "corners": corners,
                "box": [columns, rows],
                "steps": list((_U32 * rank).from_address(steps)),
            }
        )
        return 0 if all(-128 <= start < 128 for corner in corners for start in corner) else 1

    def _encode(self, place: int, dtype: int, rank: int, address: int, *rest: int) -> int:
        sizes, strides, box, steps, interleave, swizzle, promotion, fill = rest
        assert place % 64 == 0
        self.maps.append(
            {
                "dtype": dtype,
                "address": address,
                "sizes": list((ctypes.c_uint64 * rank).from_address(sizes)),
                "strides": list((ctypes.c_uint64 * (rank - 1)).from_address(strides)),
                "box": list((_U32 * rank).from_address(box)),
                "steps": list((_U32 * rank).from_address(steps)),
                "layout": (interleave, swizzle, promotion, fill),
            }
        )
        ctypes.memset(place, len(self.maps), 128)
        return 0 if max((_U32 * rank).from_address(box)) <= 256 else 1
