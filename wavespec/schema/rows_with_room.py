"""The plain spec of a case goes in; one in which taps of a window are rows further down comes out.

`shift: {M: 64}`: rows of a product are pixels, line by line, and what is summed has taps of windows that move by one.
With room beside the pixels of each line, and below those of each image, tap ``(r, s)`` of a row is the tap ``(0, 0)``
of the row ``s`` pixels and ``r`` lines further, and what lies between images reads the zeros around them. So a pixel
is staged once for all taps; the sum goes over these of 64 channels at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from wavespec.diagnostics import WavespecError, Where, quote
from wavespec.schema.language.constraints import AnyConstraint, Wave, Workgroup
from wavespec.schema.language.expression_parser import parse_expression
from wavespec.schema.language.expressions import Expression
from wavespec.schema.language.index_parser import parse_index
from wavespec.schema.language.models import Dim, KernelSpec
from wavespec.schema.made_kernels import free_name
from wavespec.schema.ops import AnyOp, Read, Register, Structured, Write
from wavespec.schema.residues.index_sums import Atom, Digit, Factors, Sum, between
from wavespec.schema.residues.written_sums import SumWriter
from wavespec.schema.windows_of_rows import Line, WindowsOfRows


class ShiftNotPossible(WavespecError, code="shift-not-possible"):
    """Rows of which none is a tap of another."""

    def __init__(self, where: Where, dim: str, why: str, hint: str) -> None:
        super().__init__(where, f"Taps are no rows of {quote(dim)} further down: {why}.", hints=[hint], about=[dim])


def with_room(spec: KernelSpec) -> KernelSpec:
    """The spec with room beside rows as its schedule asks for; what a call gets and gives stays.

    Raises:
        ShiftNotPossible: rows of something else, at the schedule.
    """
    schedule = spec.schedule
    assert schedule is not None
    ((rows, channels),) = schedule.shift.items()
    found = WindowsOfRows.of(spec, rows)
    if isinstance(found, str):
        raise ShiftNotPossible(schedule.where_key("shift", rows), rows, found, "Leave out 'shift'.")
    made = _WithRoom(spec, found, channels).spec_with_room()
    return made.model_copy(update={"schedule": schedule.model_copy(update={"shift": {}})})


@dataclass(frozen=True, slots=True)
class _Names:
    """Of dims that a spec gets: rows with all room, and pixels of a line, and lines of an image, with theirs."""

    rows: str
    lines: tuple[str, ...]


class _WithRoom:
    def __init__(self, spec: KernelSpec, windows: WindowsOfRows, channels: int) -> None:
        self.spec, self.windows, self.channels = spec, windows, channels
        sizes = [_named(between(one.digit.low, one.digit.high)) for one in windows.lines]
        lines = tuple(free_name(spec, f"{size}_with_room") for size in sizes)
        self.names = _Names(free_name(spec, f"{windows.rows}_with_room"), lines)
        self.writer = SumWriter(windows.graph.indices, {}, of_formulas=False)
        self.shifts = dict[Digit, str]()
        self.taps = self._taps()

    def spec_with_room(self) -> KernelSpec:
        update = {
            "dims": {**self.spec.dims, **self._dims()},
            "constraints": tuple(map(self._constraint, self.spec.constraints)),
            "graph": tuple(self._body(self.spec.graph)),
        }
        return self.spec.model_copy(update=update)

    def _dims(self) -> Mapping[str, Dim]:
        found: dict[str, Dim] = {}
        for name, line in zip(self.names.lines, self.windows.lines, strict=True):
            found[name] = Dim(equals=parse_expression(_most(line)), min=1)
        above = self.windows.above
        found[self.names.rows] = Dim(equals=parse_expression(" * ".join([*above, *reversed(self.names.lines)])))
        return found

    def _constraint(self, one: AnyConstraint) -> AnyConstraint:
        is_of_rows = isinstance(one, Workgroup | Wave) and one.dim == self.windows.rows
        return one.model_copy(update={"dim": self.names.rows}) if is_of_rows else one

    def _body(self, body: tuple[AnyOp, ...]) -> Iterator[AnyOp]:
        for op in body:
            match op:
                case Structured():
                    yield op.with_bodies(lambda inner: tuple(self._body(inner)))
                case Read() | Write():
                    yield self._moved(op)
                case Register():
                    yield op.model_copy(update={"shape": self._renamed(op.shape)})
                case _:
                    yield op

    def _moved(self, op: Read | Write) -> Read | Write:
        graph = self.windows.graph
        dims, places = graph.dims(op), graph.places(op)
        if {self.windows.rows, self.windows.depth}.isdisjoint(dims):
            return op
        is_shifted = isinstance(op, Read) and op.name == self.windows.read
        digits = self._digits(is_shifted=is_shifted)
        at = {dim: self._place(dim, tree, digits, is_shifted=is_shifted) for dim, tree in places.items()}
        at = {dim: tree for dim, tree in at.items() if dim in op.at or str(tree) != dim}
        return op.model_copy(update={"at": at, **({"dims": self._renamed(dims)} if isinstance(op, Read) else {})})

    def _renamed(self, dims: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(self.names.rows if dim == self.windows.rows else dim for dim in dims)

    def _place(self, dim: str, tree: Expression, digits: Mapping[Digit, str], *, is_shifted: bool) -> Expression:
        """``digits``: of rows and of what is summed, between all places that any of them begins or ends at."""
        found = self.windows.graph.indices.place(tree)
        own = {self.windows.rows, self.windows.depth}
        if found is None or not any(isinstance(one, Digit) and one.dim in own for one in found.atoms()):
            return tree
        line = next((one for one in self.windows.lines if is_shifted and one.dim == dim), None)
        if line is not None:  # the shift of a row is its tap
            found = Sum.of([*line.rest.terms, (line.digit, 1)], line.rest.constant)
        parts = [self._term(atom, number, digits) for atom, number in found.terms]
        return parse_index(" + ".join([*parts, *([f"({found.constant})"] if found.constant else [])]))

    def _term(self, atom: Atom, number: int, digits: Mapping[Digit, str]) -> str:
        if not isinstance(atom, Digit) or atom.dim not in (self.windows.rows, self.windows.depth):
            return str(self.writer.write(Sum(((atom, number),))))
        inner = [*self.windows.parts_of(atom)]
        parts = [" * ".join([f"({digits[one]})", *_sizes(between(atom.low, one.low))]) for one in inner]
        text = f"({' + '.join(parts)})"
        return text if number == 1 else f"{text} * ({number})"

    def _digits(self, *, is_shifted: bool) -> Mapping[Digit, str]:
        """Each digit in terms of rows with room, and of what is summed in its new order."""
        found, rest = dict(self.taps), self.names.rows
        for number, digit in enumerate(self.windows.row_digits):
            if number < len(self.windows.lines):
                sizes = [f"size({self.names.lines[number]})"]
                rest = f"({rest} + {self.shifts[self.windows.lines[number].tap]})" if is_shifted else rest
            else:
                sizes = _sizes(between(digit.low, digit.high))
            is_last = number == len(self.windows.row_digits) - 1 and number >= len(self.windows.lines)
            found[digit] = rest if is_last else f"{rest} % ({' * '.join(sizes)})"
            rest = " // ".join([rest, *sizes])
        return found

    def _taps(self) -> dict[Digit, str]:
        """Digits of what is summed: channels of a part, taps along lines, those across, others, parts of channels."""
        windows, along, channels = self.windows, self.windows.depth, self.channels
        lines = {one.tap: one for one in windows.lines}
        others = [one for one in windows.depth_digits if one not in lines and one != windows.channel]
        found, rest = dict[Digit, str](), f"{along} // {channels}"
        for digit in (*lines, *others):
            sizes = _sizes(between(digit.low, digit.high))
            found[digit] = self.shifts[digit] = f"{rest} % ({' * '.join(sizes)})"
            if digit in lines and lines[digit].is_reversed:
                found[digit] = f"{lines[digit].taps - 1} - {found[digit]}"
            rest = " // ".join([rest, *sizes])
        found[windows.channel] = f"{rest} * {channels} + {along} % {channels}"
        return found


def _most(line: Line) -> str:
    """So many pixels that whatever a row finds behind the last one, or in front of the next line, is a zero."""
    found: dict[str, int] = {}
    for size, more in line.least:
        text = " * ".join(size) or "1"
        found[text] = max(more, found.get(text, more))
    texts = [f"{text} + {more}" if more >= 0 else f"{text} - {-more}" for text, more in found.items()]
    return texts[0] if len(texts) == 1 else f"max({', '.join(texts)})"


def _sizes(factors: Factors) -> list[str]:
    return [one if one.isdigit() else f"size({one})" for one in factors]


def _named(factors: Factors) -> str:
    return next((one for one in factors if not one.isdigit()), "L")
