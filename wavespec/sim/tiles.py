"""Boxes and matrices in shared memory in, byte addresses out: as copy engines and matrix units compute them.

Nothing here asks `Arrangement.offset`: a tile written in one swizzle and read in another gives wrong values.
Addresses count from the start of a memory, which lies where swizzles begin anew (every 1024 bytes); its buffers lie
one after another.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from wavespec.ir.kernel import Memory
from wavespec.ir.layout import Arrangement
from wavespec.sim.elements import Integers

_CHUNK_BYTES = 16
_LINE_BYTES = 128
_ROWS = 8
_PERIOD_BYTES = 1024


def swizzle_bytes(memory: Memory) -> int:
    """Bytes of a row that one swizzle permutes: 128, 64 or 32; 0 = no swizzle.

    Raises:
        ValueError: no copy engine or matrix unit has the swizzle.
    """
    swizzle = memory.arrangement.swizzle if memory.arrangement else None
    if swizzle is None:
        return 0
    span = memory.bytes_of(swizzle.chunk * swizzle.width)
    if memory.bytes_of(swizzle.chunk) != _CHUNK_BYTES or span not in (32, 64, 128):
        raise ValueError(f"@{memory.name}: no bulk copy or matrix unit swizzles {swizzle}")
    return span


def swizzled(address: Integers, span: int) -> Integers:
    """Bits 4 and up of an address XORed with bits 7 and up: three of them for 128 bytes, one for 32."""
    return address ^ (address // _LINE_BYTES % (span // _CHUNK_BYTES) * _CHUNK_BYTES) if span else address


def box_elements(memory: Memory, start: int, box: tuple[int, ...]) -> Integers:
    """Places of the elements of a box that begins at element ``start``, row after row, ``[product of box]``."""
    span, bits, row_bytes = swizzle_bytes(memory), memory.bytes_of(8), memory.bytes_of(box[-1])
    if span and row_bytes != span:
        raise ValueError(f"@{memory.name}: rows of {row_bytes} bytes in a swizzle of {span} bytes")
    place = (start + np.arange(int(np.prod(box)))) * bits
    return (swizzled(place // 8, span) * 8 + place % 8) // bits


def matrix_addresses(memory: Memory, start: int, rows: int, depth: int, major: Literal["k", "mn"]) -> Integers:
    """Addresses of the elements of an operand, ``[rows, depth]``: rows along m or n, depth along k.

    The tile is walked in blocks of 8 rows of 16 bytes, or of one swizzled row; only the distances between blocks come
    from the arrangement.
    """
    arrangement, width = memory.arrangement, memory.dtype.bytes
    assert arrangement is not None, f"@{memory.name} has no arrangement"
    span = swizzle_bytes(memory)
    pitch = span or _CHUNK_BYTES
    across, along = np.arange(rows)[:, None], np.arange(depth)[None, :]
    # ``inner`` is contiguous in memory; 8 steps of ``outer`` make a block.
    inner, outer = (along, across) if major == "k" else (across, along)
    columns, lines = _dims(memory, arrangement)
    next_columns = _distance(arrangement, columns, pitch // width) * width
    next_lines = _distance(arrangement, lines, _ROWS) * width
    address = start + outer // _ROWS * next_lines + outer % _ROWS * pitch
    if major == "k" and span:
        address = address + inner * width
    else:
        address = address + inner * width // pitch * next_columns + inner * width % pitch
    return swizzled(address, span)


class OperandTiles:
    """`matrix_addresses` of one simulation in elements, each kept: they repeat where swizzles begin anew."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, int, int, int, str], Integers] = {}

    def places(self, memory: Memory, start: int, rows: int, depth: int, major: Literal["k", "mn"]) -> Integers:
        """Elements from byte ``start`` on, ``[rows, depth]``."""
        within = start % _PERIOD_BYTES
        key = (memory.name, within, rows, depth, major)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = matrix_addresses(memory, within, rows, depth, major) // memory.dtype.bytes
        return known + (start - within) // memory.dtype.bytes


def _dims(memory: Memory, arrangement: Arrangement) -> tuple[str, str]:
    """The contiguous dim and the other one."""
    columns = next(digit.dim for digit in arrangement.digits if digit.step == digit.stride == 1)
    lines = next(dim for dim in memory.dims if dim != columns)
    return columns, lines


def _distance(arrangement: Arrangement, dim: str, coordinate: int) -> int:
    """Elements from coordinate 0 to another one, before any swizzle."""
    digits = (digit for digit in arrangement.digits if digit.dim == dim)
    return sum(coordinate // digit.step % digit.extent * digit.stride for digit in digits)
