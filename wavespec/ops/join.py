"""`join`: the elements of a step of a reduction, each joined with what was carried for its place, or for its lane."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from wavespec.ir.kernel import Op, Value
from wavespec.ir.thread import ThreadBuilder
from wavespec.ops.contexts import ThreadContext
from wavespec.ops.reduce import OF_NUMBERS, fragments_along, identity, padded, registers_joined


def to_thread(op: Op, context: ThreadContext) -> None:
    build, (carried, value), result = context.build, op.operands, op.result
    layout, dtype, function, dim = value.tile.layout, result.tile.dtype, op["function"], op["dim"]
    assert layout is not None
    fragments = [build.cast(part, dtype, result.name) for part in context.fragments[value.name]]
    if op.get("masked"):
        fragments = padded(
            context, fragments, layout, dim, context.origin(op)[dim], op["size"], identity(function, dtype)
        )
    function = OF_NUMBERS[function] if op.get("skips_nan") else function
    so_far = context.fragments[carried.name]
    inner = layout.axes[len(layout.repeats) :]
    if op.get("by_lane") and function == "add" and all(axis.stride(dim) for axis in inner):
        groups = fragments_along(layout, fragments, dim)
        context.fragments[result.name] = _with_all(build, so_far, groups, result.name)
        return
    if op.get("by_lane"):
        fragments = registers_joined(context, fragments, layout, dim, function, result.name, None)
    pairs = zip(so_far, fragments, strict=True)
    context.fragments[result.name] = tuple(build.elementwise(function, *both, hint=result.name) for both in pairs)


def _with_all(
    build: ThreadBuilder, sums: Sequence[Value], groups: Sequence[Sequence[Value]], hint: str
) -> tuple[Value, ...]:
    """Each sum with the elements of its fragments, by multiply-adds where these are products."""

    @functools.cache
    def element(value: Value, at: int) -> Value:
        return build.slice(value, at, 1, value.name)

    made: list[Value] = []
    for total, fragments in zip(sums, groups, strict=True):
        for fragment in fragments:
            if factors := build.factors(fragment):
                for at in range(fragment.vector.elements):
                    one, other = (element(factor, at) for factor in factors)
                    total = build.elementwise("fma", one, other, total, hint=hint)
            else:
                total = build.elementwise("add", total, build.reduce("add", fragment, hint), hint=hint)
        made.append(total)
    return tuple(made)
