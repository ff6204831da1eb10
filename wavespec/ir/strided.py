"""Shape, strides and address of a tensor in; the numbers by which kernels find its elements, and their names, out.

A kernel takes the address of a tensor of any strides rounded down to a multiple of `ALIGNED_BYTES`.  The element at
``i, j, ...`` is ``offset + i * stride + j * stride + ...`` elements behind it: integers of the call, as sizes are.

What a spec says of strides is an entry for each dim: a name, which is bound to the stride that a call has there, or
what sizes and such names make of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import gcd, prod
from typing import TypeVar

ALIGNED_BYTES = 64
"""What runtimes of CPUs ask of an address, and more than any access of a lane or a copy engine does."""

LARGEST_SIZE = 2**31 - 2**16
"""Sizes of dims travel as 32-bit integers; the room above keeps a size plus a tile from overflowing."""

LARGEST_STRIDE = 2**47
"""In elements: as far apart as two places in memory are."""

Entry = TypeVar("Entry")
"""What a spec says of one stride."""

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


def strides_that_bind(
    shape: Sequence[int], strides: Sequence[int], names: Sequence[str | None]
) -> Iterator[tuple[int, str, int]]:
    """The dims of a tensor that bind a name of theirs, with it and what it is then: those of several elements."""
    if 0 not in shape:
        for axis, (size, stride, name) in enumerate(zip(shape, strides, names, strict=True)):
            if name is not None and size > 1:
                yield axis, name, stride


def with_dense_strides(
    tensors: Sequence[tuple[Sequence[int], Sequence[Entry]]],
    known: Mapping[str, int],
    name_of: Callable[[Entry], str | None],
    value_of: Callable[[Entry, Mapping[str, int]], int],
) -> dict[str, int]:
    """What is ``known``, with the names that nothing binds: such that rows lie behind each other, of tensors of these
    shapes and with these entries.

    ``value_of`` may raise `KeyError` for what is not known yet; then a dim counts as contiguous.
    """
    found = dict(known)
    most = max((len(shape) for shape, _ in tensors), default=0)
    for depth in range(1, most):  # from the inner dims to the outer ones
        for shape, entries in tensors:
            if depth >= len(shape) or (name := name_of(entries[-1 - depth])) is None or name in known:
                continue
            try:
                reached = max(shape[-depth], 1) * value_of(entries[-depth], found)
            except KeyError:
                reached = contiguous_strides(shape)[-1 - depth]
            found[name] = max(found.get(name, 0), reached)
    return found


def overlaps_itself(shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether two elements of a tensor may be at one place: where a dim does not step over all that smaller strides
    reach.  Some tensors of no such layout have their elements apart, but none that torch's own views make."""
    reached = 0
    if 0 in shape:
        return False
    for stride, size in sorted(zip(strides, shape, strict=True)):
        if size > 1 and stride <= reached:
            return True
        reached += (size - 1) * stride
    return False


def numbers_of_tensor(
    tensor: str,
    dims: Sequence[str],
    shape: Sequence[int],
    strides: Sequence[int],
    address: int,
    element_bytes: int,
    *,
    are_promised: bool = False,
) -> dict[str, int]:
    """Offset, strides but for the last dim's, which is 1, and alignment of a tensor at an address, by their names.

    ``address`` has to be a multiple of the bytes of an element; that of an empty tensor means nothing.  Strides that
    ``are_promised`` are so of any tensor, as the compiler takes them to be.
    """
    found = {offset_of(tensor): 0 if 0 in shape else address % ALIGNED_BYTES // element_bytes}
    counted = strides if are_promised else strides_that_matter(shape, strides)
    for dim, stride in list(zip(dims, counted, strict=True))[:-1]:
        found[stride_of(tensor, dim)] = stride
    found[alignment_of(tensor)] = gcd(most_alignment(element_bytes), *found.values())
    return found


def names_of_tensor(tensor: str, dims: Sequence[str]) -> tuple[str, ...]:
    """What a kernel is passed of a tensor: its offset, then strides in the order of its dims, all but the last."""
    return (offset_of(tensor), *(stride_of(tensor, dim) for dim in dims[:-1]))
