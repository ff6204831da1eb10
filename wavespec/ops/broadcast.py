"""The registers of a value with fewer dims in, its registers repeated as a wider layout has them out."""

from __future__ import annotations

from collections.abc import Sequence

from wavespec.ir.kernel import Value
from wavespec.ir.layout import Layout, RegisterAxis
from wavespec.ir.thread import ThreadBuilder


def broadcast_fragments(
    build: ThreadBuilder, tile: Value, fragments: Sequence[Value], wide: Layout
) -> tuple[Value, ...]:
    """One fragment per fragment of ``wide``; ``tile`` has the projection of that layout on its dims."""
    dims = tile.tile.dims
    if set(dims) == set(wide.dims):
        return tuple(fragments)
    inner = wide.axes[len(wide.axes) - wide.inner :]
    made = [_spread(build, value, inner, dims) for value in fragments]
    numbers = [0]
    for axis in wide.repeats:
        step = axis.extent if _kept(axis, dims) else 1
        numbers = [number * step + (i if step > 1 else 0) for number in numbers for i in range(axis.extent)]
    return tuple(made[number] for number in numbers)


def _spread(build: ThreadBuilder, value: Value, axes: Sequence[RegisterAxis], dims: Sequence[str]) -> Value:
    if all(_kept(axis, dims) for axis in axes):
        return value
    if not any(_kept(axis, dims) for axis in axes):
        count = 1
        for axis in axes:
            count *= axis.extent
        return build.broadcast(value, count)
    first, *rest = axes
    if not _kept(first, dims):
        return build.pack([_spread(build, value, rest, dims)] * first.extent, value.name)
    size = value.vector.elements // first.extent
    parts = [build.slice(value, start, size, value.name) for start in range(0, value.vector.elements, size)]
    return build.pack([_spread(build, part, rest, dims) for part in parts], value.name)


def _kept(axis: RegisterAxis, dims: Sequence[str]) -> bool:
    """Whether the registers of a value with only these dims have the axis."""
    return any(axis.stride(dim) for dim in dims)
