"""Shape, strides and address of a tensor in; the numbers by which kernels find its elements, and their names, out.

A kernel takes the address of a tensor of any strides rounded down to a multiple of `ALIGNED_BYTES`.  The element at
``i, j, ...`` is ``offset + i * stride + j * stride + ...`` elements behind it: integers of the call, as sizes are.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import gcd, prod

ALIGNED_BYTES = 64
"""What runtimes of CPUs ask of an address, and more than any access of a lane or a copy engine does."""

LARGEST_STRIDE = 2**47
"""In elements: as far apart as two places in memory are."""

_SYMBOL = re.compile(r"(\w+)\.(?:stride\.(.+)|offset)")
_NUMBER = re.compile(r"stride\((\w+), (.+)\)|offset\((\w+)\)")


def stride_of(tensor: str, dim: str) -> str:
    """The number of elements between neighbours along a dim, as specs, manifests and errors have it."""
    return f"stride({tensor}, {dim})"


def offset_of(tensor: str) -> str:
    """The number of elements between the address that a kernel gets and the first element."""
    return f"offset({tensor})"


def alignment_of(tensor: str) -> str:
    """The number of elements that divides the offset and every stride of a tensor; of conditions, not of kernels."""
    return f"alignment({tensor})"


def symbol_of(number: str) -> str:
    """What an index expression calls the number ``stride(x, M)`` or ``offset(x)``."""
    found = _NUMBER.fullmatch(number)
    assert found, f"{number} is no stride and no offset"
    tensor, dim, other = found.groups()
    return f"{tensor}.stride.{dim}" if tensor else f"{other}.offset"


def number_of(symbol: str) -> str:
    """The number that a symbol of an index expression stands for; empty for any other symbol."""
    found = _SYMBOL.fullmatch(symbol)
    if not found:
        return ""
    tensor, dim = found.groups()
    return stride_of(tensor, dim) if dim else offset_of(tensor)


def most_alignment(element_bytes: int) -> int:
    """The largest ``alignment(x)`` there is."""
    return max(1, ALIGNED_BYTES // element_bytes)


def contiguous_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Of a contiguous tensor."""
    return tuple(prod(max(size, 1) for size in shape[dim + 1 :]) for dim in range(len(shape)))


def strides_that_matter(shape: Sequence[int], strides: Sequence[int]) -> tuple[int, ...]:
    """Strides with 0 where no two elements are that far apart: there a tensor may say anything."""
    is_empty = 0 in shape
    return tuple(0 if is_empty or size == 1 else stride for size, stride in zip(shape, strides, strict=True))


def stride_together(shape: Sequence[int], strides: Sequence[int]) -> int | None:
    """The stride of several dims as one, the last of them innermost; None where no number is.

    Dims of one element do not count; without others, or without elements, it is 0.
    """
    found, reached = None, 0
    for size, stride in reversed(list(zip(shape, strides_that_matter(shape, strides), strict=True))):
        if size == 1 or 0 in shape:
            continue
        if found is not None and stride != reached:
            return None
        found = stride if found is None else found
        reached = stride * size
    return found or 0


def span_elements(shape: Sequence[int], strides: Sequence[int]) -> int:
    """Elements from the first one up to the last one in memory; 0 of an empty tensor."""
    if 0 in shape:
        return 0
    return 1 + sum((size - 1) * stride for size, stride in zip(shape, strides, strict=True))


def numbers_of_tensor(
    tensor: str, dims: Sequence[str], shape: Sequence[int], strides: Sequence[int], address: int, element_bytes: int
) -> dict[str, int]:
    """Offset, strides but for the last dim's, which is 1, and alignment of a tensor at an address, by their names.

    ``address`` has to be a multiple of the bytes of an element; that of an empty tensor means nothing.
    """
    found = {offset_of(tensor): 0 if 0 in shape else address % ALIGNED_BYTES // element_bytes}
    for dim, stride in list(zip(dims, strides_that_matter(shape, strides), strict=True))[:-1]:
        found[stride_of(tensor, dim)] = stride
    found[alignment_of(tensor)] = gcd(most_alignment(element_bytes), *found.values())
    return found


def names_of_tensor(tensor: str, dims: Sequence[str]) -> tuple[str, ...]:
    """What a kernel is passed of a tensor: its offset, then strides in the order of its dims, all but the last."""
    return (offset_of(tensor), *(stride_of(tensor, dim) for dim in dims[:-1]))
