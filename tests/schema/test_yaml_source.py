"""Reading YAML: what scalars mean, where nodes are, and that no text can hurt."""

from __future__ import annotations

import time

import pytest

from wavespec.diagnostics import WavespecError
from wavespec.schema.reading.yaml_source import MappingNode, Node, ScalarNode, SequenceNode, yaml_to_nodes

SCALARS = {
    "": None,
    "~": None,
    "null": None,
    "Null": None,
    "nULL": "nULL",
    "true": True,
    "True": True,
    "FALSE": False,
    "tRue": "tRue",
    "no": "no",
    "on": "on",
    "yes": "yes",
    "off": "off",
    "y": "y",
    "n": "n",
    "0": 0,
    "-0": 0,
    "42": 42,
    "-17": -17,
    "+5": 5,
    "010": "010",
    "-01": "-01",
    "0x1F": "0x1F",
    "0o17": "0o17",
    "0b1": "0b1",
    "1_000": "1_000",
    "1:30": "1:30",
    "190:20:30": "190:20:30",
    "1.5": 1.5,
    "-.5": -0.5,
    "1.": 1.0,
    "1e5": 100000.0,
    "1E-3": 0.001,
    "+1.5e+2": 150.0,
    "01.5": "01.5",
    "1e": "1e",
    ".": ".",
    ".inf": float("inf"),
    "-.INF": -float("inf"),
    ".nan": ".nan",
    "2024-01-01": "2024-01-01",
    "2001-12-14t21:59:43.10-05:00": "2001-12-14t21:59:43.10-05:00",
    "9223372036854775807": 2**63 - 1,
    "-9223372036854775808": -(2**63),
    "=": "=",
    "BLOCK_M / 2": "BLOCK_M / 2",
}


def value_of(text: str) -> Node:
    node, errors = yaml_to_nodes(text, "f")
    assert not errors
    assert isinstance(node, MappingNode)
    return node.entries[0].value


def code_of(text: str) -> str:
    with pytest.raises(WavespecError) as raised:
        _, errors = yaml_to_nodes(text, "f")
        raise errors[0]
    return raised.value.diagnostics[0].code


@pytest.mark.parametrize("text", SCALARS)
def test_plain_scalar_means(text: str) -> None:
    node = value_of(f"k: {text}")
    assert isinstance(node, ScalarNode)
    assert (type(node.value), node.value) == (type(SCALARS[text]), SCALARS[text])


@pytest.mark.parametrize("text", SCALARS)
def test_quoted_scalar_is_text(text: str) -> None:
    for quoted in (f'"{text}"', f"'{text}'"):
        node = value_of(f"k: {quoted}")
        assert isinstance(node, ScalarNode) and node.value == text


@pytest.mark.parametrize("text", ["9223372036854775808", "-9223372036854775809", "9" * 100_000, "1e400", "-1e999"])
def test_number_beyond_its_bits_is_refused(text: str) -> None:
    assert code_of(f"k: {text}") == "number-out-of-range"


def test_spans_of_nodes() -> None:
    text = "a:\n  b: [1, 22]   # comment\n  c: {d: x}\ne: é y\n"
    node, _ = yaml_to_nodes(text, "f")
    assert isinstance(node, MappingNode)
    inner = node.get("a")
    assert isinstance(inner, MappingNode)
    # A block ends with its last value, not at the next key.
    assert (inner.span.line, inner.span.column, inner.span.end_line, inner.span.end_column) == (2, 3, 3, 12)
    items = inner.get("b")
    assert isinstance(items, SequenceNode)
    assert [str(items.span), items.span.end_column, str(items.items[1].span)] == ["f:2:6", 13, "f:2:10"]
    last = node.entries[1]
    assert [str(last.key_span), str(last.value.span), last.value.span.end_column] == ["f:4:1", "f:4:4", 7]


def test_windows_line_ends_and_byte_order_mark_are_fine() -> None:
    node, errors = yaml_to_nodes("\ufeffa: 1\r\nb: 2\r\n", "f")
    assert isinstance(node, MappingNode) and not errors
    assert str(node.entries[1].key_span) == "f:2:1" and node.span.source and node.span.source.lines[1] == "b: 2"


def test_duplicate_key_points_at_both() -> None:
    _, (error,) = yaml_to_nodes("a: 1\nb: {c: 1, c: 2}\n", "f")
    (diagnostic,) = error.diagnostics
    assert [str(diagnostic.span), str(diagnostic.related[0].span)] == ["f:2:11", "f:2:5"]


BOMBS = {
    "laughs": ("\n".join(["a: &a [x]", *(f"k{i}: &k{i} [{', '.join(['*a'] * 9)}]" for i in range(12))]), "unsafe-yaml"),
    "cycle": ("a: &a [*a]", "unsafe-yaml"),
    "merge": ("a: {<<: {b: 1}}", "unsafe-yaml"),
    "quoted merge": ('a: {"<<": 1}', "unsafe-yaml"),
    "tag": ("a: !!python/object/apply:os.system ['id']", "unsafe-yaml"),
    "name tag": ("a: !!python/name:os.system", "unsafe-yaml"),
    "str tag": ("a: !!str 1", "unsafe-yaml"),
    "local tag": ("a: ! b", "unsafe-yaml"),
    "directive": ("%YAML 1.1\n---\na: 1", "unsafe-yaml"),
    "tag directive": ("%TAG ! tag:x,2000:\n---\na: 1", "unsafe-yaml"),
    "deep flow": ("[" * 200_000, "yaml-too-large"),
    "deep block": ("- " * 100_000 + "a", "yaml-too-large"),
    "deep mapping": ("{a: " * 50_000, "yaml-too-large"),
    "wide": ("[" + "1," * 120_000 + "]", "yaml-too-large"),
    "big": ("a: " + "x" * 2**20, "yaml-too-large"),
    "long key": ("? " + "x" * 5000 + "\n: 1", "yaml-too-large"),
    "complex key": ("? [a]\n: 1", "bad-key"),
    "number key": ("1: 1", "bad-key"),
    "truth key": ("true: 1", "bad-key"),
    "two documents": ("a: 1\n---\nb: 1", "malformed-yaml"),
    "empty": ("", "malformed-yaml"),
    "comment only": ("# nothing\n", "malformed-yaml"),
    "unclosed": ("a: [1", "malformed-yaml"),
    "nul": ("a: \x00", "unprintable-text"),
    "escaped nul": ('a: "\\0"', "unprintable-text"),
    "bidi": ("a: \u202eb", "unprintable-text"),
    "next line": ("a: 1\x85b: 2", "unprintable-text"),
    "lone surrogate": ("a: \ud800", "unprintable-text"),
    "no-break space": ("a:\u00a01", "unprintable-text"),
    "hex": ("a: 0x" + "f" * 900_000, ""),
}


@pytest.mark.parametrize("name", BOMBS)
def test_hostile_text_is_refused_at_once(name: str) -> None:
    text, expected = BOMBS[name]
    start = time.process_time()
    if expected:
        assert code_of(text) == expected
    else:
        yaml_to_nodes(text, "f")
    assert time.process_time() - start < 5.0
