"""A layout whose lanes have elements of several rows in turns in; the same elements row by row, as wide accesses load
them, and what hands them out as the layout wants them, out."""

from __future__ import annotations

from collections.abc import Sequence

from wavespec.ir.kernel import Value
from wavespec.ir.layout import Layout, RegisterAxis
from wavespec.ir.thread import ThreadBuilder


def in_run_order(layout: Layout) -> tuple[Layout, str]:
    """A layout whose lanes have the same elements, those along a dim in a row where that makes longer runs than they
    have, and this dim: what instructions take apart may lie together."""
    for dim in layout.dims:
        if (held := _in_run_order(layout, dim)) is not layout:
            return held, dim
    return layout, ""


def _in_run_order(layout: Layout, dim: str) -> Layout:
    along = sorted((axis for axis in layout.axes if axis.stride(dim)), key=lambda axis: -axis.stride(dim))
    if any(len(axis.strides) > 1 for axis in along):
        return layout
    others = [axis for axis in layout.axes if not axis.stride(dim)]
    run, inner = 1, list[RegisterAxis]()
    while along and along[-1].stride(dim) == run:
        inner.insert(0, along.pop())
        run *= inner[0].extent
    whole = Layout(layout.base, (*along, *others, *inner), len(inner))
    return whole if run > layout.run_length(dim) else layout


def as_fragments(
    build: ThreadBuilder, values: Sequence[Value], held: Layout, layout: Layout, dim: str, hint: str
) -> tuple[Value, ...]:
    """The fragments of a layout from those of one with the same elements in another order."""
    run, size = layout.run_length(dim), held.fragment_elements
    places = {tuple(place.items()): number for number, place in enumerate(held.register_offsets())}
    starts = [places[tuple(place.items())] for place in layout.register_offsets(run)]
    parts = [build.slice(values[start // size], start % size, run, hint) for start in starts]
    each = layout.fragment_elements // run
    return tuple(build.pack(parts[at : at + each], hint) for at in range(0, len(parts), each))
