"""A tree and what some of its names stand for go in; the tree with that in their place, and right spans, comes out."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from wavespec.diagnostics import Source, Span, WavespecError, Where, quote
from wavespec.schema.language.dim_names import is_expression
from wavespec.schema.language.expressions import LONGEST_EXPRESSION
from wavespec.schema.reading.yaml_source import Entry, MappingNode, Node, ScalarNode, SequenceNode, YamlTooLarge

# A name, or two with a dot between them, that is no function and no part of a number.
NAME = re.compile(r"(?<![\w.])[A-Za-z]\w*(?:\.[A-Za-z]\w*)?(?![\w.])(?!\s*\()")
_ATOM = re.compile(r"[\w.]+|\w+\([^()]*\)")
_NAMING_KEYS = ("at", "carry")
"""Fields whose keys are names, not words."""
_MOST_NODES = 100_000


class NotInExpressions(WavespecError, code="not-in-expressions"):
    def __init__(self, where: Where, name: str) -> None:
        super().__init__(where, f"{quote(name)} stands for more than an expression, and is a part of one here.")


@dataclass(frozen=True, slots=True)
class PiecedSpan(Span):
    """The span of a text in which names have been replaced, whose characters are not those of the file."""

    pieces: tuple[tuple[int, int, int], ...] = field(default=(), compare=False)
    """Of the text now: where a piece starts, where it was, and how long it was; one that was replaced is one whole."""

    def part(self, offset: int, length: int) -> Span:
        if not self.pieces:
            return self
        first = self._before(offset, at_end=False)
        last = self._before(offset + max(length, 1) - 1, at_end=True)
        plain = Span(self.file, self.line, self.column, self.end_line, self.end_column, self.source)
        return plain.part(first, max(last - first, 1))

    def _before(self, offset: int, *, at_end: bool) -> int:
        start, was, length = next((one for one in reversed(self.pieces) if one[0] <= offset), (0, 0, 0))
        if length:
            return was + length if at_end else was
        return was + offset - start + at_end


@dataclass(slots=True)
class Substitution:
    """Replaces names by nodes, at most so many that no text of 1 MiB makes a tree that is far larger."""

    names: Mapping[str, Node]
    """What each name stands for; `loop.name` may be one."""
    report: Callable[[WavespecError], object]
    renames_statements: bool = False
    """Whether names of statements are replaced as well, by names."""
    resource: Callable[[Span], Span] = field(default=lambda span: span)
    """What becomes of the spans of the tree, not of what is put into it."""
    made: int = 0

    def node(self, node: Node, key: str = "") -> Node:
        """The tree, which is the value of `key`."""
        self.made += 1
        if self.made > _MOST_NODES:
            raise YamlTooLarge(node.span, f"With its parts, a spec has at most {_MOST_NODES} keys and values.")
        match node:
            case ScalarNode(value, span):
                span = self.resource(span)
                return self._scalar(value, span) if isinstance(value, str) else ScalarNode(value, span)
            case SequenceNode(items, span):
                return SequenceNode(tuple(self.node(item) for item in items), self.resource(span))
            case MappingNode(entries, span):
                is_statement = self.renames_statements and key == "" and len(entries) == 1
                named = key in _NAMING_KEYS or is_statement
                return MappingNode(tuple(self._entry(entry, named) for entry in entries), self.resource(span))

    def _entry(self, entry: Entry, is_name: bool) -> Entry:
        stands = self.names.get(entry.key) if is_name else None
        key = stands.value if isinstance(stands, ScalarNode) and isinstance(stands.value, str) else entry.key
        if is_name and is_expression(key) and isinstance(text := self._scalar(key, entry.key_span), ScalarNode):
            key = str(text.value)
        return Entry(key, self.resource(entry.key_span), self.node(entry.value, entry.key))

    def _scalar(self, text: str, span: Span) -> Node:
        if (whole := self.names.get(text.strip())) is not None:
            return whole
        pieces: list[tuple[int, int, int]] = []
        made = ""
        end = 0
        for found in NAME.finditer(text):
            stands, start, stop = self._stands_for(found)
            if stands is None:
                continue
            if not isinstance(stands, ScalarNode) or isinstance(stands.value, bool | None):
                self.report(NotInExpressions(span.part(start, stop - start), text[start:stop]))
                continue
            value = str(stands.value)
            pieces += [(len(made), end, 0), (len(made) + start - end, start, stop - start)]
            made += text[end:start] + (value if _ATOM.fullmatch(value) else f"({value})")
            end = stop
            if len(made) > LONGEST_EXPRESSION:
                raise YamlTooLarge(span, f"An expression has at most {LONGEST_EXPRESSION} characters.")
        if not pieces:
            return ScalarNode(text, span)
        pieces.append((len(made), end, 0))
        return ScalarNode(made + text[end:], _pieced(span, tuple(pieces)))

    def _stands_for(self, found: re.Match[str]) -> tuple[Node | None, int, int]:
        """What a name of an expression stands for: both of its parts, or else the first."""
        head = found[0].split(".")[0]
        if (stands := self.names.get(found[0])) is not None:
            return stands, found.start(), found.end()
        return self.names.get(head), found.start(), found.start() + len(head)


def used_at(span: Span, use: Span) -> Span:
    """The span of a part that is used at `use`, which messages then name, too."""
    source = span.source or Source(span.file, ())
    return replace(span, source=Source(source.file, source.lines, use))


def _pieced(span: Span, pieces: tuple[tuple[int, int, int], ...]) -> Span:
    # Of what has pieces already, or is made by a template, no parts are told apart.
    kept = pieces if type(span) is Span else ()
    return PiecedSpan(span.file, span.line, span.column, span.end_line, span.end_column, span.source, kept)
