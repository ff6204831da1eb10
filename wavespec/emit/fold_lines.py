"""A Python module goes in; the same one, with lines as short as a formatter would have them, comes out."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import pairwise

LINE_LENGTH = 110
_IMPORT = re.compile(r"(from \S+ import) (.*)")
_CONDITION = re.compile(r"( *)if (.*):")
_BRACKETS_AND_STRINGS = re.compile(r"""[()\[\]{},]|"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'""")


def fold_lines(module: str) -> str:
    """``module`` with its long lines in several, but for those of docstrings."""
    inside: set[int] = set()
    for node in ast.walk(ast.parse(module)):
        if isinstance(node, ast.Constant) and node.end_lineno is not None and node.end_lineno > node.lineno:
            inside.update(range(node.lineno, node.end_lineno + 1))
    rows = enumerate(module.split("\n"), start=1)
    return "\n".join(part for row, line in rows for part in ([line] if row in inside else _folded(line)))


def _folded(line: str) -> list[str]:
    """A line; where that is too long, in its place what is inside of its last brackets, or the first ones of a
    definition, one item a line."""
    if len(line) <= LINE_LENGTH:
        return [line]
    if line.startswith("# "):
        first, _, rest = line.partition(". ")
        return [f"{first}.", f"# {rest}"]
    if found := _IMPORT.fullmatch(line):
        start, names = found.groups()
        return [f"{start} (", *(f"    {name}," for name in names.split(", ")), ")"]
    if found := _CONDITION.fullmatch(line):
        space, condition = found.groups()
        first, *others = _conjuncts(condition)
        if others and not others[-1].startswith("("):
            parts = [f"{space}    {part}" for part in (first, *(f"and {other}" for other in others))]
            return [f"{space}if (", *(row for part in parts for row in _folded(part)), f"{space}):"]
    is_definition = line.lstrip().startswith("def ")
    # Sums and products in brackets are left as they are, but for the condition of an `if`.
    pairs = [
        pair
        for pair in _brackets(line)
        if len(pair) > 2 or line.endswith(":") or (re.search(r"\w$", line[: pair[0]]) and line[pair[0]] == "(")
    ]
    if not pairs:
        return [line]
    places = pairs[0] if is_definition else pairs[-1]
    space = line[: len(line) - len(line.lstrip())]
    items = [line[start + 1 : end].strip() for start, end in pairwise(places)]
    comma = "," if is_definition or len(items) > 1 else ""
    if not comma and len(space) + 4 + len(items[0]) > LINE_LENGTH:
        items = re.split(r" (?=or )", items[0])
    parts = [part for item in items if item for part in _folded(f"{space}    {item}{comma}")]
    return [line[: places[0] + 1], *parts, space + line[places[-1] :]]


def _conjuncts(condition: str) -> Iterator[str]:
    """What is joined by `and`, but for what brackets hold."""
    within = [(places[0], places[-1]) for places in _brackets(condition)]
    start = 0
    for found in re.finditer(" and ", condition):
        if not any(opens < found.start() < closes for opens, closes in within):
            yield condition[start : found.start()]
            start = found.end()
    yield condition[start:]


def _brackets(line: str) -> Iterator[list[int]]:
    """Of each outermost pair of brackets, where it opens, where its commas are and where it closes."""
    places: list[int] = []
    depth = 0
    for found in _BRACKETS_AND_STRINGS.finditer(line):
        depth += (found[0] in "([{") - (found[0] in ")]}")
        if depth == 1 and found[0] in "([{,":
            places.append(found.start())
        elif depth == 0 and found[0] in ")]}":
            yield [*places, found.start()]
            places = []
