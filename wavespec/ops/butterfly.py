"""A value of each lane and bits of lane numbers go in; what all lanes that differ in these have, joined in each of
them, comes out."""

from __future__ import annotations

from collections.abc import Sequence

from wavespec.ir.kernel import Value
from wavespec.ops.contexts import ThreadContext


def butterfly(
    context: ThreadContext, function: str, values: Sequence[Value], masks: Sequence[int], hint: str
) -> list[Value]:
    """For each value, one exchange with the lane whose number differs in a bit, and so on for the next bit; or one
    instruction, where the machine has one for all lanes of a wave.

    Args:
        function: of `elementwise`, whose order does not matter.
        masks: powers of two, below the lanes of a wave.
    """
    build, lanes = context.build, context.machine.lanes
    types = context.machine.joined_by_lanes.get(function, ())
    if 1 << len(masks) == lanes and all(value.vector.dtype.name in types for value in values):
        joined = [Value(build.fresh(hint), value.type) for value in values]
        for value, result in zip(values, joined, strict=True):
            build.add("join_lanes", (value,), (result,), function=function, lanes=lanes)
        return joined
    for mask in masks:
        values = [build.elementwise(function, one, build.shuffle(one, mask), hint=hint) for one in values]
    return list(values)
