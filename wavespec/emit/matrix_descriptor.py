"""Arrangement of a staged tile in, the constant bits of the 64-bit matrix descriptor of `wgmma` out.

PTX ISA, "Matrix descriptor format": bits 13:0 address, 29:16 leading dimension byte offset, 45:32 stride dimension byte
offset, all in units of 16 bytes; bits 63:62 the swizzle.
"""

from __future__ import annotations

from typing import Literal

from wavespec.ir.expr import const
from wavespec.ir.layout import Arrangement
from wavespec.ir.nodes import replace

_UNIT_BYTES = 16
_ROWS = 8
_LINE_BYTES = 128
_CODES = {0: 0, 128: 1, 64: 2, 32: 3}
FIELD = (1 << 14) - 1
"""The bits of an address, or of a distance, in units of 16 bytes."""


class NoDescriptor(ValueError):
    """The hardware cannot read this arrangement: a pass arranged the tile for somebody else."""


def matrix_descriptor(arrangement: Arrangement, element_bytes: int, major: Literal["k", "mn"]) -> int:
    """Everything but the address, for a tile whose dim ``major`` is contiguous.

    Raises:
        NoDescriptor: rows that are neither swizzled over all their bytes nor 16 bytes long.
    """
    swizzled = swizzle_bytes(arrangement, element_bytes)
    row, column = _dims(arrangement)
    if not swizzled and _distance(arrangement, row, 1, element_bytes) != _UNIT_BYTES:
        raise NoDescriptor(f"the rows of {arrangement} are neither swizzled nor {_UNIT_BYTES} bytes apart")
    rows = _distance(arrangement, row, _ROWS, element_bytes)
    across = _distance(arrangement, column, (swizzled or _UNIT_BYTES) // element_bytes, element_bytes)
    if major == "k":
        leading, stride = across, rows
        if swizzled:  # not used: one instruction reads no more of k than one swizzled row has
            leading = _UNIT_BYTES
    else:
        leading, stride = (across, rows) if swizzled else (rows, across)
    fields = leading // _UNIT_BYTES, stride // _UNIT_BYTES
    if max(fields) > FIELD:
        raise NoDescriptor(f"{arrangement} is too large: {leading} and {stride} bytes from block to block")
    return fields[0] << 16 | fields[1] << 32 | _CODES[swizzled] << 62


def has_leading_dim(arrangement: Arrangement, element_bytes: int, major: Literal["k", "mn"]) -> bool:
    """Whether the hardware looks at the distance along the leading dim."""
    return major == "mn" or not swizzle_bytes(arrangement, element_bytes)


def swizzle_bytes(arrangement: Arrangement, element_bytes: int) -> int:
    """Bytes of a row in which the hardware permutes chunks of 16 bytes: 128, 64, 32, or 0 for none.

    Raises:
        NoDescriptor: a permutation other than the hardware's, or rows that are longer.
    """
    swizzle = arrangement.swizzle
    if swizzle is None:
        return 0
    bytes_ = swizzle.chunk * swizzle.width * element_bytes
    hardware = (
        swizzle.chunk * element_bytes == _UNIT_BYTES
        and bytes_ in _CODES
        and swizzle.period * bytes_ == _LINE_BYTES
        and swizzle.fold == 1
        and (swizzle.row, swizzle.column) == _dims(arrangement)
    )
    if not hardware or _distance(arrangement, swizzle.row, 1, element_bytes) != bytes_:
        raise NoDescriptor(f"{arrangement} of {element_bytes}-byte elements is no swizzle of the hardware")
    return bytes_


def _dims(arrangement: Arrangement) -> tuple[str, str]:
    """The dim of the rows and the contiguous one."""
    real = [digit for digit in arrangement.digits if digit.extent > 1]
    column = next((digit.dim for digit in real if digit.stride == digit.step == 1), "")
    rows = {digit.dim for digit in real} - {column}
    if not column or len(rows) != 1:
        raise NoDescriptor(f"{arrangement} is no matrix with a contiguous dim")
    return rows.pop(), column


def _distance(arrangement: Arrangement, dim: str, step: int, element_bytes: int) -> int:
    """Bytes from coordinate 0 to ``step`` of one dim, before any swizzle."""
    plain = replace(arrangement, swizzle=None)
    place = {digit.dim: const(step if digit.dim == dim else 0) for digit in arrangement.digits}
    return plain.offset(place).value * element_bytes
