"""Places in the text of a member go in; the places in the template of its family that made them come out."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace

from wavespec.diagnostics import Diagnostic, Related, Source, Span
from wavespec.schema.reading.yaml_source import Entry, MappingNode, Node, ScalarNode, SequenceNode


@dataclass(frozen=True, slots=True)
class Piece:
    """`text[start:end]` of a member was made by `template[template_start:template_end]`."""

    start: int
    end: int
    template_start: int
    template_end: int
    is_text: bool
    """Character by character, from `template_start` on; else it is the value of an expression."""


class MadeSpan(Span):
    """The span of a text with values of parameters in it, whose characters are not those of the template."""

    __slots__ = ()

    def part(self, offset: int, length: int) -> Span:
        return self


@dataclass(frozen=True, slots=True)
class TemplatePlace:
    """Where a template was written: text of a file, from a line and a column on."""

    source: Source
    text: str
    first_line: int = 1
    column: int = 1
    """Of the first character of every line; `first_column` is that of the first line."""
    first_column: int | None = None

    def span(self, start: int, end: int) -> Span:
        """Of the characters `start` to `end` of the template."""
        line, column = self._at(start)
        end_line, end_column = self._at(end)
        return Span(self.source.file, line, column, end_line, end_column, self.source)

    def line(self, number: int) -> Span:
        """Of what is on a line of the template, counted from 1."""
        lines = self.text.split("\n")
        number = min(max(number, 1), len(lines))
        start = sum(len(line) + 1 for line in lines[: number - 1])
        written = lines[number - 1]
        blank = len(written) - len(written.lstrip())
        return self.span(start + blank, start + max(len(written.rstrip()), blank))

    def word(self, number: int, word: str) -> Span:
        """Of the first `word` on a line; of the line where it has none."""
        lines = self.text.split("\n")
        edge = r"\b" if word.isidentifier() else ""
        found = re.search(f"{edge}{re.escape(word)}{edge}", lines[number - 1]) if number <= len(lines) else None
        if found is None:
            return self.line(number)
        start = sum(len(line) + 1 for line in lines[: number - 1])
        return self.span(start + found.start(), start + found.end())

    def _at(self, offset: int) -> tuple[int, int]:
        lines_before = self.text.count("\n", 0, offset)
        in_line = offset - (self.text.rfind("\n", 0, offset) + 1)
        column = self.first_column if lines_before == 0 and self.first_column is not None else self.column
        return self.first_line + lines_before, column + in_line


class MemberPlaces:
    """Leads from the text of one member to its template."""

    def __init__(self, text: str, pieces: Sequence[Piece], place: TemplatePlace) -> None:
        self._pieces = pieces
        self._starts = [piece.start for piece in pieces]
        self._place = place
        self._lines = [0]
        for line in text.split("\n"):
            self._lines.append(self._lines[-1] + len(line) + 1)
        self._length = len(text)

    def span(self, span: Span) -> Span:
        """Where the template wrote what is at `span` of the member."""
        start, end = self._offset(span.line, span.column), self._offset(span.end_line, span.end_column)
        if not self._pieces:
            return self._place.line(1)
        first = self._piece(start)
        last = self._piece(max(start, end - 1))
        begin = first.template_start + (min(start, first.end) - first.start if first.is_text else 0)
        stop = last.template_end
        if last.is_text:
            stop = last.template_start + (min(end, last.end) - last.start)
        if stop < begin:  # it goes on in the next round of a loop
            stop = first.template_end
        made = self._place.span(begin, stop)
        if first is last and first.is_text:
            return made
        return MadeSpan(made.file, made.line, made.column, made.end_line, made.end_column, made.source)

    def node(self, node: Node) -> Node:
        """The node with all its places in the template."""
        match node:
            case ScalarNode(value, span):
                return ScalarNode(value, self.span(span))
            case SequenceNode(items, span):
                return SequenceNode(tuple(map(self.node, items)), self.span(span))
            case MappingNode(entries, span):
                moved = tuple(Entry(one.key, self.span(one.key_span), self.node(one.value)) for one in entries)
                return MappingNode(moved, self.span(span))

    def diagnostic(self, found: Diagnostic) -> Diagnostic:
        """A mistake in the text of the member as one in the template."""
        if found.span is None:
            return found
        related = tuple(Related(self.span(one.span), one.label) for one in found.related)
        return replace(found, where=self.span(found.span), related=related)

    def _offset(self, line: int, column: int) -> int:
        line = min(line, len(self._lines) - 1)
        return min(self._lines[line - 1] + column - 1, self._length)

    def _piece(self, offset: int) -> Piece:
        return self._pieces[max(bisect_right(self._starts, offset) - 1, 0)]
