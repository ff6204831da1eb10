"""A kernel with names for element types, as nodes of YAML or as plain data, and the types goes in; the kernel with the
types in place of their names comes out.

A name stands for a type in three places, wherever they are: `dtype: T`, a conversion `T(x)`, and `bits(T)`, the bits of
an element, or `mantissa(T)`, those of its mantissa that are written, which are computed with the numbers around them:
`N % (128 // bits(T))` of bf16 is `N % 8`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import cast

from wavespec.diagnostics import Span, WavespecError
from wavespec.ir.dtype import DTYPES, DType
from wavespec.schema.language.dtype_parameters import TYPE_NAME_PATTERN, Types, UndefinedDtypeName
from wavespec.schema.language.expression_parser import parse_expression
from wavespec.schema.language.expressions import (
    FUNCTIONS,
    PLACES,
    Binary,
    Call,
    EvaluationError,
    Expression,
    Name,
    Num,
    Unary,
)
from wavespec.schema.reading.yaml_source import Entry, MappingNode, Node, ScalarNode, SequenceNode

_NOT_TYPED = ("apiVersion", "kind", "name", "doc", "dtypes")
"""Fields of a kernel in which no type is named."""
_OF_TYPES: Mapping[str, Callable[[DType], int]] = {"bits": lambda one: one.bits, "mantissa": lambda one: one.mantissa}
_FUNCTIONS = {**FUNCTIONS, **dict.fromkeys(_OF_TYPES, (1, 1))}
_CALLS = re.compile(rf"(?<![\w.])(?P<of>{'|'.join(_OF_TYPES)})\s*\(\s*(?P<name>\w+)\s*\)")


@dataclass(frozen=True, slots=True)
class Replacement:
    """`text` is in the place of the characters `start` to `end` of what was written."""

    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True)
class ReplacedSpan(Span):
    """The span of a text in which parts were replaced: it knows where the others were written."""

    replaced: tuple[Replacement, ...] = field(default=(), compare=False, repr=False)
    before: Span | None = field(default=None, compare=False, repr=False)
    """Of the text in which they were replaced."""

    @classmethod
    def of(cls, span: Span, replaced: tuple[Replacement, ...]) -> ReplacedSpan:
        """The span of the text at `span` with these replaced."""
        at = (span.file, span.line, span.column, span.end_line, span.end_column, span.source)
        return cls(*at, replaced, span)

    def part(self, offset: int, length: int) -> Span:
        start, end = self._written(offset, 0), self._written(offset + length, 1)
        return Span.part(self, start, end - start) if self.before is None else self.before.part(start, end - start)

    def _written(self, offset: int, side: int) -> int:
        """The place of an offset; inside of a replacement the start (side 0) or the end (1) of what it replaces."""
        moved = 0
        for one in self.replaced:
            start = one.start + moved
            if offset < start + (0 if side == 0 else 1):
                break
            if offset < start + len(one.text) + side:
                return one.end if side else one.start
            moved += len(one.text) - (one.end - one.start)
        return offset - moved


def node_with_dtypes(root: MappingNode, types: Types) -> MappingNode:
    """The kernel without `dtypes`, every other part at its place."""
    entries = (
        entry
        if entry.key in _NOT_TYPED
        else Entry(entry.key, entry.key_span, _node(entry.value, types, entry.key == "dtype"))
        for entry in root.entries
        if entry.key != "dtypes"
    )
    return MappingNode(tuple(entries), root.span)


def unknown_names(node: Node, known: Collection[str], key: str = "") -> Iterator[WavespecError]:
    """Where something is meant for a name of element types that is none of those ``known``."""
    match node:
        case MappingNode(entries):
            for entry in entries:
                if key or entry.key not in _NOT_TYPED:
                    yield from unknown_names(entry.value, known, entry.key)
        case SequenceNode(items):
            for item in items:
                yield from unknown_names(item, known, key)
        case ScalarNode(str(value), span) if key == "dtype":
            if re.match(TYPE_NAME_PATTERN, value) and value not in known:
                yield UndefinedDtypeName(span, value, known)
        case ScalarNode(str(value), span):
            for match in _CALLS.finditer(value):
                if match["name"] not in known:
                    part = span.part(match.start("name"), len(match["name"]))
                    yield UndefinedDtypeName(part, match["name"], known)
        case ScalarNode():
            pass


def data_with_dtypes(data: object, types: Types, key: str = "") -> object:
    """Plain data, expressions in it, with the types."""
    if isinstance(data, str) and key not in _NOT_TYPED:
        return types.get(data, data) if key == "dtype" else _replaced(data, types)[0]
    if isinstance(data, Expression):
        return parse_expression(_replaced(str(data), types)[0])
    if isinstance(data, Mapping):
        return {name: data_with_dtypes(value, types, name) for name, value in cast("dict[str, object]", data).items()}
    if isinstance(data, list | tuple):
        return tuple(data_with_dtypes(value, types) for value in cast("tuple[object, ...]", data))
    return data


def _node(node: Node, types: Types, is_dtype: bool) -> Node:
    match node:
        case MappingNode(entries, span):
            inner = (Entry(e.key, e.key_span, _node(e.value, types, e.key == "dtype")) for e in entries)
            return MappingNode(tuple(inner), span)
        case SequenceNode(items):
            return replace(node, items=tuple(_node(item, types, False) for item in items))
        case ScalarNode(str(value), span) if is_dtype:
            return ScalarNode(types.get(value, value), span)
        case ScalarNode(str(value), span):
            text, replaced = _replaced(value, types)
            if not replaced:
                return node
            return ScalarNode(int(text) if text.isdigit() else text, ReplacedSpan.of(span, replaced))
        case ScalarNode():
            return node


def _replaced(text: str, types: Types) -> tuple[str, tuple[Replacement, ...]]:
    """A text with the types in place of conversions and sizes of them, and what was replaced, in order."""
    if "(" not in text:
        return text, ()
    found = tuple(sorted((*_conversions(text, types), *_sizes(text, types)), key=lambda one: one.start))
    written, last = "", 0
    for one in found:
        written += text[last : one.start] + one.text
        last = one.end
    return written + text[last:], found


def _conversions(text: str, types: Types) -> Iterator[Replacement]:
    for match in re.finditer(r"(?<![\w.])([A-Z]\w*)\s*\(", text):
        if dtype := types.get(match[1]):
            yield Replacement(match.start(1), match.end(1), dtype)


def _sizes(text: str, types: Types) -> Iterator[Replacement]:
    if not any(match["name"] in types for match in _CALLS.finditer(text)):
        return
    try:
        tree = parse_expression(text, None, _FUNCTIONS)
    except WavespecError:  # an expression of values, or one that is said to be wrong where it is read
        for match in _CALLS.finditer(text):
            if dtype := types.get(match["name"]):
                yield Replacement(match.start(), match.end(), str(_OF_TYPES[match["of"]](DTYPES[dtype])))
        return
    yield from _computed(text, tree, types)


def _computed(text: str, node: Expression, types: Types) -> Iterator[Replacement]:
    """The largest parts of an expression that have `bits` or `mantissa` in them and no name, each by its value."""
    known = _with_numbers(node, types)
    is_of_types = any(isinstance(one, Call) and one.function in _OF_TYPES for one in node.walk())
    if is_of_types and known is not None:
        try:
            yield Replacement(*_balanced(text, *node.at), str(known.evaluate({})))
        except EvaluationError:
            pass  # `1 / 32` is said to be wrong where it is read.
        else:
            return
    for child in node.children if is_of_types else ():
        yield from _computed(text, child, types)


def _with_numbers(node: Expression, types: Types) -> Expression | None:
    """The expression with numbers for those of types; None where it has no number."""
    match node:
        case Call(function=function, arguments=(Name(name=name),)) if function in _OF_TYPES and name in types:
            return Num(_OF_TYPES[function](DTYPES[types[name]]))
        case Num():
            return node
        case Unary(op=op, operand=operand):
            inner = _with_numbers(operand, types)
            return inner and Unary(op, inner)
        case Binary(op=op, left=left, right=right):
            first, second = _with_numbers(left, types), _with_numbers(right, types)
            return Binary(op, first, second) if first and second else None
        case Call(function=function, arguments=arguments) if function not in (*PLACES, *_OF_TYPES):
            values = [value for one in arguments if (value := _with_numbers(one, types))]
            return Call(function, tuple(values)) if len(values) == len(arguments) else None
        case _:
            return None


def _balanced(text: str, start: int, length: int) -> tuple[int, int]:
    """The part of a text, from its start to its end, with the parentheses at its edges that belong to it."""
    end = start + length
    opened = closed = 0
    for character in text[start:end]:
        opened += character == "("
        if character == ")":
            opened, closed = (opened - 1, closed) if opened else (0, closed + 1)
    for _ in range(closed):
        start = text.rindex("(", 0, start)
    for _ in range(opened):
        end = text.index(")", end) + 1
    return start, end
