"""A layout whose fragments lie across rows of a memory in; one along the rows, and the way back in registers, out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product

from wavespec.ir.kernel import Value
from wavespec.ir.layout import Layout, RegisterAxis
from wavespec.ir.thread import ThreadBuilder


@dataclass(frozen=True, slots=True)
class TurnedBlocks:
    """The registers of ``layout`` as square blocks of ``width``, of which ``lines`` has the rows one after the other;
    ``outer`` counts the blocks, along the axis ``at`` those that are ``width`` fragments of the layout."""

    layout: Layout
    lines: Layout
    width: int
    outer: tuple[int, ...]
    at: int

    def fragments(self, build: ThreadBuilder, lines: Sequence[Value], hint: str) -> tuple[Value, ...]:
        """The fragments of the layout, of those of ``lines``."""
        width, columns = self.width, dict[tuple[int, ...], Value]()
        for number, place in enumerate(product(*map(range, self.outer))):
            rows = [*lines[number * width : (number + 1) * width]]
            block = build.transpose(build.pack(rows, hint), width, width, hint=hint)
            for column in range(width):
                along = place[self.at] * width + column
                columns[(*place[: self.at], along, *place[self.at + 1 :])] = build.slice(
                    block, column * width, width, hint
                )
        return tuple(columns[place] for place in sorted(columns))


_LEAST_ROW_BITS = 128  # what shuffles move elements inside of


def turned_blocks(layout: Layout, column: str, bits: int) -> TurnedBlocks | None:
    """The blocks of a layout, of elements of so many ``bits``, whose fragments are runs along another dim than
    ``column``; None where there are none, or rows of them are too short to be turned in registers."""
    *outer, across = layout.axes or (RegisterAxis(1, ()),)
    width = across.extent
    steps = ((column, 1),)
    at = next((i for i, axis in enumerate(outer) if axis.strides == steps and axis.extent % width == 0), None)
    if layout.inner != 1 or width * bits < _LEAST_ROW_BITS or width & (width - 1) or at is None:
        return None
    outer[at] = RegisterAxis(outer[at].extent // width, ((column, width),))
    lines = replace(layout, axes=(*outer, across, RegisterAxis(width, steps)))
    return TurnedBlocks(layout, lines, width, tuple(axis.extent for axis in outer), at)
