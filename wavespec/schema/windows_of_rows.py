"""A spec and a dim of its rows go in; the windows that move over these by one, whose taps a product sums up, come out.

Rows are pixels, line by line: ``M % size(W)`` is the place in a line. A window is a place ``M % size(W) + s - 1`` of
what is read, of which ``s`` is a digit of the dim that is summed over.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod

from wavespec.diagnostics import WavespecError
from wavespec.schema.language.expressions import Call, Name, Num
from wavespec.schema.language.models import KernelSpec
from wavespec.schema.ops import (
    ELEMENTWISE,
    Bitcast,
    Cast,
    Formula,
    Iterate,
    Mma,
    Read,
    Register,
    Size,
    Write,
    every,
    walk,
)
from wavespec.schema.residues.index_sums import Digit, Factors, Made, Sum, between, includes, joined, primes
from wavespec.schema.residues.read_graph import ReadGraph
from wavespec.schema.residues.split_dims import NotSplit, cuts_of

_KNOWN = (Bitcast, Cast, Formula, Iterate, Mma, Read, Register, Size, Write, *ELEMENTWISE)
_MOST_LINES = 2
"""Digits of rows along which a tap is a row further on: along a line, and across lines."""


@dataclass(frozen=True, slots=True)
class Line:
    """Windows along one digit of rows."""

    dim: str
    """Of what is read."""
    digit: Digit
    tap: Digit
    is_reversed: bool
    """Whether taps are subtracted: a row is shifted by what is left to the last one."""
    rest: Sum
    """What stands beside the row and its shift, such as ``-1``."""
    least: tuple[tuple[Factors, int], ...]
    """Sizes, and what is added to each, of which the largest is how many rows a line has with its room."""

    @property
    def taps(self) -> int:
        return _number(between(self.tap.low, self.tap.high))


@dataclass(frozen=True, slots=True)
class WindowsOfRows:
    graph: ReadGraph
    rows: str
    depth: str
    """The dim that is summed over."""
    read: str
    """The name of what is read by windows."""
    row_digits: tuple[Digit, ...]
    """From the lowest on."""
    depth_digits: tuple[Digit, ...]
    lines: tuple[Line, ...]
    channel: Digit

    @property
    def taps(self) -> int:
        return prod(one.taps for one in self.lines)

    @property
    def above(self) -> Factors:
        """The size of what counts lines, or images."""
        last = self.lines[-1].digit.high
        return between(last, self.row_digits[-1].high)

    @property
    def sizes(self) -> tuple[str, ...]:
        """Dims that decide how many rows a line has."""
        found = (name for line in self.lines for size, _ in line.least for name in size if not name.isdigit())
        return tuple(dict.fromkeys(found))

    def parts_of(self, digit: Digit) -> Iterator[Digit]:
        """The digits that one of more of them is made of."""
        for one in self.row_digits if digit.dim == self.rows else self.depth_digits:
            if includes(one.low, digit.low) and includes(digit.high, one.high):
                yield one

    @staticmethod
    def of(spec: KernelSpec, rows: str) -> WindowsOfRows | str:
        """Why there are none, if there are none."""
        if rows not in spec.dims or any(rows in one.shape for one in spec.tensors.values()):
            return "it is no dim of results that places are made of"
        try:
            return _Finder(ReadGraph(spec), rows).windows()
        except NotSplit:
            return "places along it overlap"
        except WavespecError:  # checks report it
            return "the graph has mistakes"


class _Finder:
    def __init__(self, graph: ReadGraph, rows: str) -> None:
        self.graph, self.rows = graph, rows

    def windows(self) -> WindowsOfRows | str:
        graph, rows = self.graph, self.rows
        products = [*every(Mma, graph.spec.graph)]
        loops = [loop for loop in every(Iterate, graph.spec.graph) if any(every(Mma, loop.body))]
        if len(products) != 1 or len(loops) != 1 or not all(isinstance(op, _KNOWN) for op in walk(graph.spec.graph)):
            return "it takes one product in one loop, and values beside it that are made element by element"
        (loop,) = loops
        if loop.start is not None or loop.end is not None or self._asks_for_index(loop.dim):
            return "values follow from the places of rows"
        reads = [op for op in every(Read, loop.body) if {rows, loop.dim} <= {*graph.dims(op)}]
        if len(reads) != 1 or any(
            {rows, loop.dim} <= {*graph.types[op.name].dims} for op in every(Register, loop.body)
        ):
            return "one read has to have its rows"
        self.depth, (self.read,) = loop.dim, reads
        self.row_digits, self.depth_digits = self._digits(rows), self._digits(self.depth)
        self.places = {dim: graph.indices.place(tree) for dim, tree in graph.places(self.read).items()}
        lines = tuple(self._lines())
        last = [*self.places.values()][-1]
        channel = None if last is None else last.atom
        if not lines or not isinstance(channel, Digit) or channel not in self.depth_digits:
            return "no window moves by one over it, with channels that lie side by side"
        if not self._are_apart(lines) or not self._write_only_pixels(lines):
            return "rows behind the last pixel of a line would be written, or taps are elsewhere, too"
        return WindowsOfRows(
            graph, rows, self.depth, self.read.name, self.row_digits, self.depth_digits, lines, channel
        )

    def _asks_for_index(self, depth: str) -> bool:
        own = {self.rows, depth}
        indices = (
            str(one.arguments[0])
            for tree in self.graph.trees.values()
            for one in tree.walk()
            if isinstance(one, Call) and one.function == "index"
        )
        return not own.isdisjoint(indices)

    def _digits(self, dim: str) -> tuple[Digit, ...]:
        found = [
            atom
            for op in walk(self.graph.spec.graph)
            if isinstance(op, Read | Write)
            for tree in self.graph.places(op).values()
            for atom in (self.graph.indices.place(tree) or Sum()).atoms()
            if isinstance(atom, Digit) and atom.dim == dim
        ]
        cuts = cuts_of(found, self.graph.indices.factors(dim))
        return tuple(Digit(dim, low, high) for low, high in pairwise(cuts))

    def _lines(self) -> Iterator[Line]:
        """Along the lowest digits of rows, as long as there are windows."""
        for digit in self.row_digits[:_MOST_LINES]:
            found = [line for dim, place in self.places.items() if (line := self._line(dim, place, digit))]
            if len(found) != 1:
                return
            yield found[0]

    def _line(self, dim: str, place: Sum | None, digit: Digit) -> Line | None:
        if place is None or (digit, 1) not in place.terms:
            return None
        taps = [one for one in place.terms if isinstance(one[0], Digit) and one[0].dim == self.depth]
        if len(taps) != 1 or abs(taps[0][1]) != 1:
            return None
        (tap, sign), *_ = taps
        assert isinstance(tap, Digit)
        count = _number(between(tap.low, tap.high))
        rest = Sum.of([one for one in place.terms if one[0] not in (digit, tap)], place.constant)
        rest = rest if sign > 0 else rest - Sum(constant=count - 1)
        ends = self._ends(rest)
        if tap not in self.depth_digits or count < 2 or ends is None:
            return None
        size, (low, high) = between(digit.low, digit.high), ends
        least = ((size, count - 1 + high), (self.graph.indices.factors(dim), -low), (size, 0))
        return Line(dim, digit, tap, sign < 0, rest, least)

    def _ends(self, rest: Sum) -> tuple[int, int] | None:
        """The least and the most that a place has besides, by dims of a few elements."""
        low = high = rest.constant
        for atom, number in rest.terms:
            if not isinstance(atom, Digit) or atom.dim in (self.rows, self.depth):
                return None
            count = _number(between(atom.low, atom.high))
            if not count:
                return None
            low, high = low + min(0, number * (count - 1)), high + max(0, number * (count - 1))
        return low, high

    def _are_apart(self, lines: Sequence[Line]) -> bool:
        """Whether other places have neither digits of lines nor their taps, and nothing but digits of rows, and of
        what is summed."""
        own = {one for line in lines for one in (line.digit, line.tap)}
        others = [place for dim, place in self.places.items() if dim not in {line.dim for line in lines}]
        if any(place is None or not own.isdisjoint(place.atoms()) for place in others):
            return False
        sums = [self.graph.indices.place(tree) for op in self._accesses() for tree in self.graph.places(op).values()]
        dims = {self.rows, self.depth}
        made = [atom for one in sums if one is not None for atom in one.atoms() if isinstance(atom, Made)]
        inner = [part for atom in made for one in atom.arguments for part in one.atoms()]
        return None not in sums and not any(isinstance(one, Digit) and one.dim in dims for one in inner)

    def _accesses(self) -> Iterator[Read | Write]:
        for op in walk(self.graph.spec.graph):
            if isinstance(op, Read | Write) and not {self.rows, self.depth}.isdisjoint(self.graph.dims(op)):
                yield op

    def _write_only_pixels(self, lines: Sequence[Line]) -> bool:
        """Whether what is behind the last pixel of a line, or the last line of an image, has a place outside."""
        for write in every(Write, self.graph.spec.graph):
            if self.rows not in self.graph.dims(write):
                continue
            places = {dim: self.graph.indices.place(tree) for dim, tree in self.graph.places(write).items()}
            if write.combine or not all(
                any(self._ends_with(place, dim, line) for dim, place in places.items()) for line in lines
            ):
                return False
        return True

    def _ends_with(self, place: Sum | None, dim: str, line: Line) -> bool:
        """Whether a place is `digit * 2 + residue`, and the dim has twice as many elements as there are digits, or one
        less."""
        found = [number for atom, number in place.terms if atom == line.digit] if place is not None else []
        if place is None or not found or found[0] < 1:
            return False
        ends = self._ends(place - Sum(((line.digit, found[0]),)))
        size = between(line.digit.low, line.digit.high)
        if ends is None or ends[0] < 0:
            return False
        if self.graph.indices.factors(dim) == joined(primes(found[0]), size):
            return True
        quotient = self.graph.spec.dims.get(size[0]) if len(size) == 1 else None
        match quotient and quotient.equals:
            case Call(function="ceildiv", arguments=(Name(name=name), Num(value=value))):
                return name == dim and value == found[0]
            case _:
                return False


def _number(factors: Factors) -> int:
    """0 where a call says it."""
    return prod(map(int, factors)) if all(one.isdigit() for one in factors) else 0
