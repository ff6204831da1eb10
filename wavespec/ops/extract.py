"""`extract`: a part of a tile that every lane has already, as fragments of another layout."""

from __future__ import annotations

from collections.abc import Mapping

from wavespec.ir.kernel import Op, Value
from wavespec.ir.layout import Layout
from wavespec.ops.contexts import ThreadContext


def to_thread(op: Op, context: ThreadContext) -> None:
    """Slices of runs of registers; nothing moves where all of a fragment is one run."""
    (value,), result, build = op.operands, op.result, context.build
    layout, wanted = value.tile.layout, result.tile.layout
    assert layout is not None and wanted is not None
    parts, size = context.fragments[value.name], layout.fragment_elements
    registers = registers_of(layout, wanted, {dim: expr.value for dim, expr in context.origin(op).items()})
    fragments = list[Value]()
    for first in range(0, len(registers), wanted.fragment_elements):
        run = registers[first : first + wanted.fragment_elements]
        starts = [n for n, at in enumerate(run) if n == 0 or at != run[n - 1] + 1 or at % size == 0]
        pieces = [
            build.slice(parts[run[start] // size], run[start] % size, end - start, result.name)
            for start, end in zip(starts, (*starts[1:], len(run)), strict=True)
        ]
        fragments.append(build.pack(pieces, result.name))
    context.fragments[result.name] = tuple(fragments)


def registers_of(layout: Layout, wanted: Layout, origin: Mapping[str, int]) -> list[int]:
    """For each register of ``wanted``, moved to ``origin``, the one of ``layout`` that has the same element.

    Raises `KeyError` where there is none in the lane.
    """
    if dict(layout.base) != dict(wanted.base):
        raise KeyError("other lanes have them")
    dims = layout.dims
    known = {tuple(offset[dim] for dim in dims): number for number, offset in enumerate(layout.register_offsets())}
    return [known[tuple(offset[dim] + origin[dim] for dim in dims)] for offset in wanted.register_offsets()]
