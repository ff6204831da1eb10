"""YAML text goes in; a tree of nodes with spans, or errors, comes out. Nothing in it can run or explode.

The caps are checked on the stream of events, before any tree exists. Plain scalars follow the core schema of
YAML 1.2, in decimal: `no`, `on`, `010`, `1:30` and dates are text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import yaml

from wavespec.diagnostics import Related, Source, Span, WavespecError, Where, quote
from wavespec.schema.language.errors import NumberOutOfRange
from wavespec.schema.language.expressions import INT64_MAX, INT64_MIN
from wavespec.yaml_loader import LOADER

LARGEST_FILE_BYTES = 2**20
_DEEPEST = 32
_MOST_NODES = 100_000
_LONGEST_KEY = 256

_INTEGER = re.compile(r"[-+]?(0|[1-9][0-9]*)")
_FLOAT = re.compile(r"[-+]?((0|[1-9][0-9]*)(\.[0-9]*)?|\.[0-9]+)([eE][-+]?[0-9]+)?")
_CONSTANTS: dict[str, bool | float | None] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), float("inf")),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), -float("inf")),
}

ScalarValue = str | int | float | bool | None


@dataclass(frozen=True, slots=True)
class ScalarNode:
    value: ScalarValue
    span: Span


@dataclass(frozen=True, slots=True)
class SequenceNode:
    items: tuple[Node, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class Entry:
    """One `key: value` of a mapping; all keys are text."""

    key: str
    key_span: Span
    value: Node


@dataclass(frozen=True, slots=True)
class MappingNode:
    entries: tuple[Entry, ...]
    span: Span

    def get(self, key: str) -> Node | None:
        return next((entry.value for entry in self.entries if entry.key == key), None)


Node = ScalarNode | SequenceNode | MappingNode


def values_of(node: Node) -> list[ScalarValue]:
    """The value of a scalar, or those of a list that are scalars."""
    items = node.items if isinstance(node, SequenceNode) else (node,)
    return [item.value for item in items if isinstance(item, ScalarNode)]


class MalformedYaml(WavespecError, code="malformed-yaml"):
    """The text is not YAML, or not one document."""


class UnsafeYaml(WavespecError, code="unsafe-yaml"):
    """A feature of YAML that specs do not have: anchors, aliases, merge keys, tags, directives."""


class YamlTooLarge(WavespecError, code="yaml-too-large"):
    """A cap on bytes, depth, nodes or key length."""


class UnprintableText(WavespecError, code="unprintable-text"):
    def __init__(self, where: Where, character: str) -> None:
        message = f"U+{ord(character):04X} is not printable; specs are plain printable text."
        super().__init__(where, message, hints=["Delete the character; a copy from a web page often brings one."])


class DuplicateKey(WavespecError, code="duplicate-key"):
    def __init__(self, again: Span, first: Span, key: str) -> None:
        super().__init__(
            again,
            f"The key {quote(key)} is here twice; YAML readers would silently drop the first.",
            label="again",
            related=[Related(first, "first")],
        )


class BadKey(WavespecError, code="bad-key"):
    def __init__(self, where: Where, found: str) -> None:
        super().__init__(where, f"A key is text; this one is {found}.")


def yaml_to_nodes(text: str, file: str) -> tuple[Node, list[WavespecError]]:
    """Read one document; the errors are those that leave the tree usable.

    Raises:
        WavespecError: the text as a whole cannot be read, or is refused.
    """
    text = text.removeprefix("\ufeff")
    source = Source.of(file, text)
    start = Span(file, 1, 1, 1, 1, source)
    if len(text) > LARGEST_FILE_BYTES:
        raise YamlTooLarge(start, f"A spec has at most {LARGEST_FILE_BYTES} characters; this one has {len(text)}.")
    _refuse_unprintable(source)
    builder = _TreeBuilder(source)
    try:
        for event in _events(text):
            builder.take(event)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        span = _span(source, mark, mark) if mark else start
        context = f" {error.context}" if error.context else ""
        line = source.lines[span.line - 1] if span.line <= len(source.lines) else ""
        is_tab = line[span.column - 1 : span.column] == "\t"
        hints = ["Indent by spaces: YAML has no tabs there."] if is_tab else []
        message = f"This is not YAML: {error.problem or 'unreadable'}{context}."
        raise MalformedYaml(span, message, hints=hints) from None
    except yaml.YAMLError as error:
        raise MalformedYaml(start, f"This is not YAML: {quote(str(error))}.") from None
    if builder.root is None:
        raise MalformedYaml(start, "The file is empty.", hints=["A spec begins with 'apiVersion: wavespec/v1'."])
    return builder.root, builder.errors


def plain_to_value(text: str) -> ScalarValue:
    """What an unquoted scalar means.

    Raises:
        OverflowError: a number beyond 63 bits, or beyond 64-bit floating point.
    """
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    if _INTEGER.fullmatch(text):
        if len(text) > 20 or not INT64_MIN <= int(text) <= INT64_MAX:
            raise OverflowError("63 bits")
        return int(text)
    if _FLOAT.fullmatch(text):
        value = float(text)
        if value in (float("inf"), -float("inf")):
            raise OverflowError("64-bit floating point")
        return value
    return text


def _events(text: str) -> Iterator[Any]:
    parse: Any = yaml.parse  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    yield from parse(text, Loader=LOADER)


def _refuse_unprintable(source: Source) -> None:
    for number, line in enumerate(source.lines, 1):
        if line.isprintable():
            continue
        for column, character in enumerate(line, 1):
            if not character.isprintable() and character != "\t":
                raise UnprintableText(Span(source.file, number, column, number, column + 1, source), character)


def _span(source: Source, start: Any, end: Any) -> Span:
    return Span(source.file, start.line + 1, start.column + 1, end.line + 1, end.column + 1, source)


class _Open:
    """A collection whose end has not come yet."""

    def __init__(self, span: Span, is_mapping: bool, is_flow: bool) -> None:
        self.span = span
        self.is_mapping = is_mapping
        self.is_flow = is_flow
        self.items: list[Node] = []
        self.entries: dict[str, Entry] = {}
        self.key: tuple[str, Span] | None = None
        self.skips_value = False


class _TreeBuilder:
    def __init__(self, source: Source) -> None:
        self.source = source
        self.root: Node | None = None
        self.errors: list[WavespecError] = []
        self.open: list[_Open] = []
        self.nodes = 0

    def take(self, event: Any) -> None:
        """Take the next event of the parser."""
        match event:
            case yaml.AliasEvent():
                raise UnsafeYaml(self._at(event), "Specs have no aliases ('*name').", hints=["Write the value again."])
            case yaml.DocumentStartEvent():
                self._document(event)
            case yaml.ScalarEvent() | yaml.SequenceStartEvent() | yaml.MappingStartEvent():
                self._refuse_properties(event)
                self._node(event)
            case yaml.SequenceEndEvent() | yaml.MappingEndEvent():
                self._close(self._at(event))
            case _:
                pass

    def _document(self, event: Any) -> None:
        if event.version or event.tags:
            raise UnsafeYaml(self._at(event), "Specs have no YAML directives ('%YAML', '%TAG').")
        if self.root is not None:
            raise MalformedYaml(self._at(event), "A file holds one spec; a second document begins here.")

    def _refuse_properties(self, event: Any) -> None:
        span = self._at(event)
        if event.anchor:
            raise UnsafeYaml(
                span,
                f"Specs have no anchors ({quote('&' + event.anchor)}).",
                hints=["Write the value again."],
            )
        if event.tag:
            raise UnsafeYaml(span, f"Specs have no tags ({quote(event.tag)}).", hints=["Delete the tag."])
        self.nodes += 1
        if self.nodes > _MOST_NODES:
            raise YamlTooLarge(span, f"A spec has at most {_MOST_NODES} keys and values.")

    def _node(self, event: Any) -> None:
        span = self._at(event)
        if isinstance(event, yaml.ScalarEvent):
            self._scalar(event, span)
            return
        self._refuse_as_key(span)
        if len(self.open) >= _DEEPEST:
            raise YamlTooLarge(span, f"A spec nests at most {_DEEPEST} levels.")
        self.open.append(_Open(span, isinstance(event, yaml.MappingStartEvent), bool(event.flow_style)))

    def _scalar(self, event: Any, span: Span) -> None:
        text: str = event.value
        for character in text:
            if not character.isprintable() and character not in "\t\n":
                raise UnprintableText(span, character)
        value: ScalarValue = text
        if event.implicit[0]:
            try:
                value = plain_to_value(text)
            except OverflowError as limit:
                self.errors.append(NumberOutOfRange(span, text, str(limit)))
                value = 1
        top = self.open[-1] if self.open else None
        if top and top.is_mapping and top.key is None:
            self._key(top, text, value, span)
        else:
            self._add(ScalarNode(value, span))

    def _key(self, top: _Open, text: str, value: ScalarValue, span: Span) -> None:
        if not isinstance(value, str):
            self.errors.append(BadKey(span, f"the number {quote(text)}" if text[-1:].isdigit() else quote(text)))
            top.skips_value = True
        if text == "<<":
            raise UnsafeYaml(
                span, "Specs have no merge keys ('<<').", hints=["Use 'extends', or write the values again."]
            )
        if len(text) > _LONGEST_KEY:
            raise YamlTooLarge(span, f"A key has at most {_LONGEST_KEY} characters; this one has {len(text)}.")
        top.key = (text, span)

    def _refuse_as_key(self, span: Span) -> None:
        if self.open and self.open[-1].is_mapping and self.open[-1].key is None:
            raise BadKey(span, "a list or a mapping")

    def _close(self, end: Span) -> None:
        closed = self.open.pop()
        children = [*closed.items, *(entry.value for entry in closed.entries.values())]
        # The end event of a block collection lies at the next token, often lines further down.
        last = end if closed.is_flow or not children else max((c.span for c in children), key=_end)
        span = closed.span.to(last)
        if closed.is_mapping:
            self._add(MappingNode(tuple(closed.entries.values()), span))
        else:
            self._add(SequenceNode(tuple(closed.items), span))

    def _add(self, node: Node) -> None:
        if not self.open:
            self.root = node
            return
        top = self.open[-1]
        if not top.is_mapping:
            top.items.append(node)
            return
        assert top.key is not None
        key, key_span = top.key
        top.key = None
        if top.skips_value:
            top.skips_value = False
        elif first := top.entries.get(key):
            self.errors.append(DuplicateKey(key_span, first.key_span, key))
        else:
            top.entries[key] = Entry(key, key_span, node)

    def _at(self, event: Any) -> Span:
        return _span(self.source, event.start_mark, event.end_mark)


def _end(span: Span) -> tuple[int, int]:
    return (span.end_line, span.end_column)
