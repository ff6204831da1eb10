"""A layout whose fragments lie across rows of a memory in; one along the rows, and the way back in registers, out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise, product

from wavespec.ir.expr import Expr, const
from wavespec.ir.kernel import Memory, Value
from wavespec.ir.layout import Layout, RegisterAxis
from wavespec.ir.quotients import settled
from wavespec.ir.thread import ThreadBuilder
from wavespec.targets.machine import Machine


@dataclass(frozen=True, slots=True)
class TurnedBlocks:
    """The registers of ``layout`` as square blocks of ``width``, of which ``lines`` has the rows one after the other;
    ``outer`` counts the blocks, along the axis ``at`` those that are ``width`` fragments of the layout.  Blocks may be
    of units of several elements, which stay side by side."""

    layout: Layout
    lines: Layout
    width: int
    outer: tuple[int, ...]
    at: int
    unit: int = 1

    def fragments(self, build: ThreadBuilder, lines: Sequence[Value], hint: str) -> tuple[Value, ...]:
        """The fragments of the layout, of those of ``lines``."""
        turned = self._turned(build, lines, hint)
        by_place = dict(zip(self._places(), turned, strict=True))
        return tuple(by_place[place] for place in sorted(by_place))

    def of_fragments(self, build: ThreadBuilder, fragments: Sequence[Value], hint: str) -> tuple[Value, ...]:
        """The fragments of ``lines``, of those of the layout."""
        places = self._places()
        by_place = dict(zip(sorted(places), fragments, strict=True))
        return self._turned(build, [by_place[place] for place in places], hint)

    def _turned(self, build: ThreadBuilder, lines: Sequence[Value], hint: str) -> tuple[Value, ...]:
        """Lines of square blocks, their columns in place of their rows."""
        made: list[Value] = []
        width, elements = self.width, self.width * self.unit
        for start in range(0, len(lines), width):
            block = build.transpose(build.pack([*lines[start : start + width]], hint), width, width, self.unit, hint)
            made += [build.slice(block, column * elements, elements, hint) for column in range(width)]
        return tuple(made)

    def _places(self) -> list[tuple[int, ...]]:
        """Of the fragments of the layout, block by block."""
        return [
            (*block[: self.at], block[self.at] * self.width + column, *block[self.at + 1 :])
            for block in product(*map(range, self.outer))
            for column in range(self.width)
        ]


_BYTE_BITS = 8
_LEAST_ROW_BITS = 128  # what shuffles move elements inside of


def turned_blocks(layout: Layout, column: str, bits: int, unit: int = 1) -> TurnedBlocks | None:
    """The blocks of a layout, of elements of so many ``bits``, whose fragments are runs along another dim than
    ``column``, of units of several elements; None where there are none, or rows of them are too short to be turned in
    registers."""
    *outer, across = layout.axes or (RegisterAxis(1, ()),)
    width, rest = divmod(across.extent, unit)
    steps = ((column, 1),)
    whole = (i for i, axis in enumerate(outer) if width and axis.strides == steps and axis.extent % width == 0)
    at = next(whole, None)
    if layout.inner != 1 or rest or across.extent * bits < _LEAST_ROW_BITS or width & (width - 1) or at is None:
        return None
    outer[at] = RegisterAxis(outer[at].extent // width, ((column, width),))
    extents = tuple(axis.extent for axis in outer)
    if unit == 1:
        lines = replace(layout, axes=(*outer, across, RegisterAxis(width, steps)))
        return TurnedBlocks(layout, lines, width, extents, at)
    along = RegisterAxis(width, tuple((dim, stride * unit) for dim, stride in across.strides))
    inside = RegisterAxis(unit, across.strides)
    lines = replace(layout, axes=(*outer, along, RegisterAxis(width, steps), inside), inner=2)
    return TurnedBlocks(layout, lines, width, extents, at, unit)


def in_runs(layout: Layout) -> Layout:
    """The layout with the runs along its last axis for fragments, as rows are of what a matrix instruction gives."""
    return replace(layout, axes=layout.axes or (RegisterAxis(1, ()),), inner=1)


def in_parts_of_runs(layout: Layout, column: str, unit: int = 1) -> Iterator[Layout]:
    """The same with parts of the runs, of as many units as there are rows along ``column``."""
    *outer, last = in_runs(layout).axes
    for axis in outer:
        run = axis.extent * unit
        if axis.strides == ((column, 1),) and run < last.extent and last.extent % run == 0:
            parts = RegisterAxis(last.extent // run, tuple((dim, step * run) for dim, step in last.strides))
            yield replace(layout, axes=(*outer, parts, RegisterAxis(run, last.strides)), inner=1)


@dataclass(frozen=True, slots=True)
class PairedRows:
    """The registers of ``layout`` as blocks of ``rows`` runs of ``width``, of which ``lines`` has the columns one after
    the other, as panels have elements that one step multiplies; ``outer`` and ``at`` as of `TurnedBlocks`."""

    lines: Layout
    rows: int
    width: int
    outer: tuple[int, ...]
    at: int

    def of_fragments(self, build: ThreadBuilder, fragments: Sequence[Value], hint: str) -> tuple[Value, ...]:
        """The fragments of ``lines``, of runs of ``width`` elements of the layout."""
        (*before, pairs), behind = self.outer[: self.at + 1], self.outer[self.at + 1 :]
        places = {place: n for n, place in enumerate(product(*map(range, (*before, pairs * self.rows, *behind))))}
        made = list[Value]()
        for block in product(*map(range, self.outer)):
            first = block[self.at] * self.rows
            rows = ((*block[: self.at], first + row, *block[self.at + 1 :]) for row in range(self.rows))
            packed = build.pack([fragments[places[place]] for place in rows], hint)
            made.append(build.transpose(packed, self.rows, self.width, hint=hint))
        return tuple(made)


def paired_rows(layout: Layout, column: str, bits: int, rows: int) -> PairedRows | None:
    """Blocks of so many rows, whose runs lie along another dim than ``column``; None as for `turned_blocks`."""
    *outer, across = layout.axes or (RegisterAxis(1, ()),)
    steps = ((column, 1),)
    at = next((i for i, axis in enumerate(outer) if axis.strides == steps and axis.extent % rows == 0), None)
    if at is None or across.extent * bits < _LEAST_ROW_BITS:
        return None
    outer[at] = RegisterAxis(outer[at].extent // rows, ((column, rows),))
    lines = replace(layout, axes=(*outer, across, RegisterAxis(rows, steps)), inner=2)
    return PairedRows(lines, rows, across.extent, tuple(axis.extent for axis in outer), at)


def blocks_across(layout: Layout, memory: Memory, machine: Machine) -> TurnedBlocks | None:
    """The blocks of a lane that lie across the rows of a memory, on machines with vector registers; on others those of
    bytes in a tensor, whose lanes have words of four, and a whole block in a fragment."""
    if machine.vector_bytes:
        return turned_blocks(layout, memory.nearest_dim, memory.dtype.bits)
    if machine.lanes == 1 or memory.space != "global" or memory.dtype.stored_bits != _BYTE_BITS:
        return None
    return turned_blocks(replace(layout, inner=1), memory.contiguous_dim, _BYTE_BITS)


def blocks_of_units(layout: Layout, memory: Memory, machine: Machine) -> TurnedBlocks | None:
    """The blocks of a lane with vector registers whose units of several elements lie one behind the other along a dim,
    as the rows of an operand do whose elements a step of a product takes two or four at a time."""
    across, unit = unit_of(memory)
    if not machine.vector_bytes or unit == 1:
        return None
    return turned_blocks(layout, across, memory.dtype.bits, unit)


def unit_of(memory: Memory) -> tuple[str, int]:
    """The dim along which units of several elements lie one behind the other in a memory, and how many are in one; an
    element alone where there are no such."""
    if memory.arrangement is None or len(memory.arrangement.digits) < 2:
        return "", 1
    across, last = memory.arrangement.digits[-2:]
    if (last.step, last.stride, across.step, across.stride) != (1, 1, 1, last.extent):
        return "", 1
    return across.dim, last.extent


def stored_together(places: Sequence[Expr], elements: int) -> int:
    """Of columns at these places, of so many elements each, those that one store takes: all, or each alone."""
    return len(places) if all(settled(b - a) is const(elements) for a, b in pairwise(places)) else 1


def regroup(build: ThreadBuilder, values: Sequence[Value], size: int, hint: str) -> Iterator[Value]:
    """The same registers in values of ``size`` elements."""
    waiting: list[Value] = []
    have = 0
    for value in values:
        start, elements = 0, value.vector.elements
        while start < elements:
            take = min(size - have, elements - start)
            waiting.append(build.slice(value, start, take, hint))
            start, have = start + take, have + take
            if have == size:
                yield build.pack(waiting, hint)
                waiting, have = [], 0
