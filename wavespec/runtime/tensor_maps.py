"""Addresses and shapes of tensors go in; the 128-byte descriptors come out by which bulk copies of NVIDIA
machines find their boxes."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from wavespec.ir.strided import LARGEST_SIZE
from wavespec.runtime.artifact import (
    DTYPE_BYTES,
    ENDED_DIMS,
    ENDED_ROWS,
    TENSOR_MAP_BYTES,
    KernelArtifact,
    TensorMap,
)
from wavespec.runtime.checks import ArgumentError
from wavespec.runtime.cuda_driver import CudaDriver
from wavespec.runtime.launch_plan import LaunchPlan
from wavespec.runtime.size_expr import evaluate

_MAP_ALIGNMENT_BYTES: Final = 64
_PITCH_BYTES: Final = 16
_MAPS_KEPT: Final = 4096
# Values of enumerations in cuda.h; what is not named here has elements of one byte, which are moved as they are.
_DATA_TYPES: Final = {"i16": 1, "i32": 3, "i64": 5, "f16": 6, "f32": 7, "f64": 8, "bf16": 9, "tf32": 11}
_BYTES: Final = 0
_SWIZZLES: Final = {0: 0, 32: 1, 64: 2, 128: 3}
_NO_INTERLEAVE: Final = 0
_FETCH_256_BYTES: Final = 3
_ZEROS_OUTSIDE: Final = 0


class TensorMaps:
    """The maps of one kernel, each encoded once per address and shape: they depend on nothing else.

    They are passed to kernels by value, so that a call that was captured in a CUDA graph keeps its own.
    """

    def __init__(self, artifact: KernelArtifact, driver: CudaDriver) -> None:
        names = [tensor.name for tensor in artifact.tensors]
        self._encoders = [
            (index, _Encoder(artifact.name, one, artifact.tensors[index].dtype, driver), dict[_Key, bytes]())
            for one in artifact.tensor_maps
            for index in (names.index(one.tensor),)
        ]

    def __call__(self, addresses: Sequence[int], plan: LaunchPlan) -> list[bytes]:
        """The maps for tensors (inputs, then outputs) at `addresses`, of the shapes of `plan`."""
        maps: list[bytes] = []
        for index, encode, known in self._encoders:
            strides = plan.strides[index] if plan.strides else ()
            key = addresses[index], *encode.seen(plan.shapes[index], plan.sizes), strides
            encoded = known.get(key)
            if encoded is None:
                if len(known) >= _MAPS_KEPT:
                    known.clear()
                encoded = known[key] = encode(*key)
            maps.append(encoded)
        return maps


_Key = tuple[int, tuple[int, ...], tuple[int, ...], tuple[int, ...]]


class _Encoder:
    """Makes one map of a kernel for any address and shape."""

    def __init__(self, kernel: str, described: TensorMap, dtype: str, driver: CudaDriver) -> None:
        box = described.box if described.ended is None else (*[1] * ENDED_DIMS, *described.box)
        rank = len(box)
        self._described = described
        self._where = f"{kernel}: tensor '{described.tensor}'"
        # Boxes of packed elements are boxes of bytes, as their shapes are.
        self._element_bytes = DTYPE_BYTES.get(dtype, 1)
        self._data_type = _DATA_TYPES.get(described.rounded or dtype, _BYTES)
        # The driver counts dims from the innermost.
        steps = [1, *(window.step for window in described.windows), 1] if described.windows else [1] * rank
        if described.row_step > 1:
            self._rows = max(range(rank - 1), key=lambda dim: box[dim])
            rows = described.row_step, box[self._rows] // described.row_step
            box, rank, steps = (*box[: self._rows], *rows, *box[self._rows + 1 :]), rank + 1, [*steps, 1]
        self._box = (ctypes.c_uint32 * rank)(*reversed(box))
        self._steps = (ctypes.c_uint32 * len(steps))(*reversed(steps))
        self._layout = (_NO_INTERLEAVE, _SWIZZLES[described.swizzle_bytes], _FETCH_256_BYTES, _ZEROS_OUTSIDE)
        self._driver = driver

    def seen(self, shape: tuple[int, ...], sizes: Mapping[str, int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The shape that the map describes, and how many windows move along its dims, for dims of these sizes."""
        view = tuple(evaluate(size, sizes) for size in self._described.view)
        return view or shape, tuple(evaluate(window.count, sizes) for window in self._described.windows)

    def __call__(
        self, address: int, shape: tuple[int, ...], counts: tuple[int, ...] = (), strides: tuple[int, ...] = ()
    ) -> bytes:
        """Encode; `ArgumentError` for a tensor that no map can describe, which the kernel's conditions on
        sizes should have kept away.  No box of an empty tensor is ever copied, so its map says nothing.
        ``strides``: in elements, of a tensor that is not contiguous."""
        if 0 in shape:
            return bytes(TENSOR_MAP_BYTES)
        if (
            step := self._described.row_step
        ) > 1:  # a dim of rows that far apart, and around it one of those in between
            shape, strides = _split(shape, strides, self._rows, step)
        rank = len(shape)
        sizes, pitches = (ctypes.c_uint64 * (rank + ENDED_DIMS))(), (ctypes.c_uint64 * (rank + ENDED_DIMS))()
        pitch = self._element_bytes
        for dim, size in enumerate(reversed(shape)):
            if size > LARGEST_SIZE:  # of several dims together; places in it travel as 32-bit integers
                raise ArgumentError(f"{self._where} is copied as {list(shape)}, expected at most {LARGEST_SIZE}.")
            sizes[dim] = size
            pitch *= size
            if strides and dim + 1 < rank:
                # A dim of one element steps nowhere; what is said of it has to be a step all the same.
                is_one, stride = shape[rank - 2 - dim] == 1, strides[rank - 2 - dim] * self._element_bytes
                pitch = max(pitch + -pitch % _PITCH_BYTES, _PITCH_BYTES) if is_one else stride
            pitches[dim] = pitch  # of the next dim; the last is not read
            if dim + 1 < rank and pitch % _PITCH_BYTES:
                raise ArgumentError(
                    f"{self._where} of shape {list(shape)} has rows {pitch} bytes apart: a tensor map needs a "
                    f"multiple of {_PITCH_BYTES}."
                )
        if self._described.ended is not None:
            rank = self._end_rows(rank, sizes, pitches)
        memory = ctypes.create_string_buffer(TENSOR_MAP_BYTES + _MAP_ALIGNMENT_BYTES)
        skipped = -ctypes.addressof(memory) % _MAP_ALIGNMENT_BYTES
        tensor = ctypes.addressof(memory) + skipped, self._data_type, rank, address, sizes, pitches
        if counts:
            function, encode, part = (
                "cuTensorMapEncodeIm2col",
                self._driver.encode_windows,
                self._windows(shape, counts),
            )
        else:
            function, encode, part = "cuTensorMapEncodeTiled", self._driver.encode_tiled, (self._box,)
        status = encode(*tensor, *part, self._steps, *self._layout)
        if status and 0 in pitches[: rank - 1]:
            raise ArgumentError(
                f"{self._where} of shape {list(shape)} has strides {list(strides)}, and the driver makes no tensor map "
                f"of rows that are one row; pass {self._described.tensor}.contiguous()."
            )
        if status:
            reason = self._driver.error(function, status).reason
            raise RuntimeError(
                f"{self._where} of shape {list(shape)}: {function}: {reason} "
                f"(boxes of {list(self._described.box)}, swizzled in rows of {self._described.swizzle_bytes} bytes)."
            )
        return memory.raw[skipped : skipped + TENSOR_MAP_BYTES]

    def _end_rows(self, rank: int, sizes: Any, pitches: Any) -> int:
        """Describe rows by three dims, two of which are the outermost ones; returns how many dims there are then.

        All go from row to row, the outermost back by one and on by a 2^30th of all that can be addressed: with
        `ENDED_ROWS` steps of it, and as many rows in all, a place is where it is without both.
        """
        assert self._described.ended is not None
        dim = rank - 1 - self._described.ended
        row = pitches[dim - 1]
        sizes[rank], pitches[rank - 1] = sizes[dim] + 1, row
        sizes[rank + 1], pitches[rank] = ENDED_ROWS + 1, 2**64 // ENDED_ROWS - row
        sizes[dim] = ENDED_ROWS
        return rank + ENDED_DIMS

    def _windows(self, shape: tuple[int, ...], counts: tuple[int, ...]) -> tuple[Any, Any, int, int]:
        """The first and the last start of a window, from the first and from the last element of each dim; columns and
        rows of a box."""
        rows, columns = self._described.box
        lower = [window.first for window in self._described.windows]
        upper = [
            window.first + (count - 1) * window.step - (size - 1)
            for window, count, size in zip(self._described.windows, counts, shape[1:-1], strict=True)
        ]
        corners = ctypes.c_int * len(lower)
        return corners(*reversed(lower)), corners(*reversed(upper)), columns, rows


def _split(
    shape: tuple[int, ...], strides: tuple[int, ...], dim: int, step: int
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """A dim as two: around that of every so many-th row, which divides the tensor's, that of the rows in between."""
    if not strides:
        strides = tuple(math.prod(shape[number + 1 :]) for number in range(len(shape)))
    parts = step, shape[dim] // step
    pitches = strides[dim], strides[dim] * step
    return (*shape[:dim], *parts, *shape[dim + 1 :]), (*strides[:dim], *pitches, *strides[dim + 1 :])
