"""A value of each lane and bits of lane numbers go in; what all lanes that differ in these have, joined in each of
them, comes out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from wavespec.ir.kernel import Value
from wavespec.ir.thread import ThreadBuilder


def butterfly(
    build: ThreadBuilder, function: str, values: Sequence[Value], masks: Iterable[int], hint: str
) -> list[Value]:
    """For each value, one exchange with the lane whose number differs in a bit, and so on for the next bit.

    Args:
        function: of `elementwise`, whose order does not matter.
        masks: powers of two, below the lanes of a wave.
    """
    for mask in masks:
        values = [build.elementwise(function, one, build.shuffle(one, mask), hint=hint) for one in values]
    return list(values)
