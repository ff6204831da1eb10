"""Tensors of any strides go in; whether elements may share memory, of one of them or of two, comes out."""

from __future__ import annotations

from torch import Tensor

from wavespec.ir.strided import overlaps_itself, span_elements


def extent_bytes(tensor: Tensor) -> int:
    """From its first element up to the last one in memory; 0 of an empty tensor."""
    return span_elements(tensor.shape, tensor.stride()) * tensor.element_size()


def may_overlap_itself(tensor: Tensor) -> bool:
    """Whether two elements of a tensor may be at one place, as `overlaps_itself` has it."""
    return overlaps_itself(tensor.shape, tensor.stride())


def may_share_memory(first: Tensor, second: Tensor) -> bool:
    """Whether two tensors may have an element at one place; False is certain.

    They are apart where their ranges are; or where both repeat at one distance, as halves of rows do, and what each has
    within one period lies beside what the other has.
    """
    if not first.numel() or not second.numel():
        return False
    start, other_start = first.data_ptr(), second.data_ptr()
    if start >= other_start + extent_bytes(second) or other_start >= start + extent_bytes(first):
        return False
    periods = {stride * one.element_size() for one in (first, second) for stride in one.stride() if stride > 0}
    return not any(_are_apart(first, second, period) for period in periods)


def _are_apart(first: Tensor, second: Tensor, period: int) -> bool:
    width, other_width = _within(first, period), _within(second, period)
    distance = (second.data_ptr() - first.data_ptr()) % period
    return width <= distance and distance + other_width <= period


def _within(tensor: Tensor, period: int) -> int:
    """Bytes from the first element of a tensor that its elements have, up to multiples of a period."""
    size = tensor.element_size()
    reached = (
        (extent - 1) * stride * size
        for extent, stride in zip(tensor.shape, tensor.stride(), strict=True)
        if stride * size % period
    )
    return size + sum(reached)
