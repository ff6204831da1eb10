"""Descriptors of the matrix unit: ready constants, and a model of what the hardware reads through one."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import pytest

from wavespec.emit.matrix_descriptor import NoDescriptor, matrix_descriptor, swizzle_bytes
from wavespec.ir.expr import const
from wavespec.ir.layout import Arrangement, Digit, Swizzle, row_major

Major = Literal["k", "mn"]


def rows(row: str, column: str, extents: tuple[int, int], element_bytes: int, swizzled: int) -> Arrangement:
    """Slabs of ``swizzled`` bytes of the contiguous dim, all rows of a slab one after another; 0: of 16 bytes."""
    width = (swizzled or 16) // element_bytes
    count, length = extents
    digits = (Digit(column, length // width, width, count * width), Digit(row, count, 1, width))
    plain = Arrangement((*digits, Digit(column, width, 1, 1)))
    if not swizzled:
        return plain
    return replace(plain, swizzle=Swizzle(row, column, 16 // element_bytes, swizzled // 16, 128 // swizzled))


def address(bits: int, start: int, mn: int, k: int, element_bytes: int, major: Major) -> int:
    """Where the matrix unit reads an element: the canonical layouts of the PTX ISA, addresses in bytes."""
    leading, stride = (bits >> 16 & 0x3FFF) * 16, (bits >> 32 & 0x3FFF) * 16
    swizzled = {0: 0, 1: 128, 2: 64, 3: 32}[bits >> 62]
    unit = 16 // element_bytes
    if major == "k" and not swizzled:
        return start + mn // 8 * stride + mn % 8 * 16 + k // unit * leading + k % unit * element_bytes
    if major == "k":
        place = start + mn // 8 * stride + mn % 8 * swizzled + k * element_bytes
    elif not swizzled:
        return start + mn // unit * stride + k // 8 * leading + k % 8 * 16 + mn % unit * element_bytes
    else:
        across, inside = divmod(mn * element_bytes, swizzled)
        place = start + across * leading + k // 8 * stride + k % 8 * swizzled + inside
    return place ^ (place >> 3 & {128: 0x70, 64: 0x30, 32: 0x10}[swizzled])


@pytest.mark.parametrize("swizzled", [128, 64, 32, 0])
@pytest.mark.parametrize(("major", "element_bytes"), [("k", 1), ("k", 2), ("k", 4), ("mn", 2)])
def test_the_matrix_unit_reads_what_was_staged(major: Major, element_bytes: int, swizzled: int) -> None:
    staged = {"mn": 128, "k": 256 // element_bytes}  # only 16-bit elements may have k strided
    row, column = ("mn", "k") if major == "k" else ("k", "mn")
    arrangement = rows(row, column, (staged[row], staged[column]), element_bytes, swizzled)
    bits = matrix_descriptor(arrangement, element_bytes, major)
    plain, depth = replace(arrangement, swizzle=None), 32 // element_bytes
    for first_mn in (0, 64):
        for first_k in range(0, staged["k"], depth):
            start = plain.offset({"mn": const(first_mn), "k": const(first_k)}).value * element_bytes
            for mn in (*range(9), 31, 32, 63):
                for k in range(0, depth, 3):
                    place = arrangement.offset({"mn": const(first_mn + mn), "k": const(first_k + k)}).value
                    assert address(bits, start, mn, k, element_bytes, major) == place * element_bytes, (mn, k)


def test_ready_constants() -> None:
    """As other generators of such kernels write them."""
    tile = replace(row_major(("M", "K"), (128, 64)), swizzle=Swizzle("M", "K", 8, 8, 1))
    assert matrix_descriptor(tile, 2, "k") == 0x4000004000010000
    assert matrix_descriptor(rows("K", "N", (64, 256), 2, 128), 2, "mn") == 0x4000004002000000


@pytest.mark.parametrize(
    ("digits", "swizzle"),
    [
        pytest.param(row_major(("M", "K"), (128, 64)).digits, None, id="rows without swizzle"),
        pytest.param(row_major(("M", "K"), (128, 64), 8).digits, Swizzle("M", "K", 8, 8, 1), id="padding"),
        pytest.param(row_major(("M", "K"), (128, 128)).digits, Swizzle("M", "K", 8, 8, 1), id="longer rows"),
        pytest.param(row_major(("M", "K"), (128, 64)).digits, Swizzle("M", "K", 8, 8, 2), id="another period"),
        pytest.param(row_major(("M", "K"), (128, 32)).digits, Swizzle("M", "K", 8, 4, 1, 2), id="folded"),
        pytest.param(row_major(("M", "K"), (128, 64)).digits, Swizzle("M", "K", 4, 16, 1), id="half chunks"),
        pytest.param(row_major(("L", "M", "K"), (2, 128, 64)).digits, Swizzle("M", "K", 8, 8, 1), id="three dims"),
    ],
)
def test_other_arrangements_are_refused(digits: tuple[Digit, ...], swizzle: Swizzle | None) -> None:
    with pytest.raises(NoDescriptor):
        matrix_descriptor(Arrangement(digits, swizzle), 2, "k")


def test_bytes_of_the_swizzle() -> None:
    assert [swizzle_bytes(rows("M", "K", (64, 64), 2, n), 2) for n in (128, 64, 32, 0)] == [128, 64, 32, 0]
