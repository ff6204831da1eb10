"""Windows that move over a dim of a tensor go in; what a machine that copies them has to reach comes out."""

from __future__ import annotations

from collections.abc import Iterator

from wavespec.ir.expr import Expr, const

Window = tuple[int, int, Expr, Expr]
"""Along a dim of a tensor: where the first window starts, from each to the next, how many there are, and how far behind
its start the farthest element of one is."""


def limits_of_windows(window: Window, size: Expr, reach: int) -> Iterator[tuple[str, Expr, int]]:
    """What windows that move over a dim of this ``size`` have to be for a machine to copy them, in words, as a number
    and as the most that it may be.

    Of as many bits as its instructions have for a dim, offsets use one more than the corners between which windows
    start: the first one's, and the last one's from the last element on.
    """
    first, step, count, farthest = window
    last = const(first) + (count - 1) * step - (size - 1)
    yield f"have elements at most {2 * reach - 1} behind their start", farthest, 2 * reach - 1
    yield f"start at most {reach - 1} behind the last element", last, reach - 1
    yield f"start up to at most {reach} before the last element", -last, reach
