"""Parts of a generated Python module go in; their text, as a formatter would write it, comes out."""

from __future__ import annotations

import re
import textwrap

LINE_LENGTH = 110


def wrapped(text: str) -> list[str]:
    # Control and direction characters would let the docstring look like something else than it is.
    clean = "".join(char if char.isprintable() or char == "\n" else " " for char in text)
    width = LINE_LENGTH - 8
    return [line for paragraph in clean.split("\n") for line in textwrap.wrap(paragraph.strip(), width) or [""]]


def written_docstring(docstring: str) -> str:
    lines = [line if index == 0 else f"    {line}".rstrip() for index, line in enumerate(docstring.split("\n"))]
    escaped = "\n".join(lines).replace("\\", "\\\\").replace('"', '\\"')
    # An escaped quote reads badly where it need not be one: only runs of three and the last one can end the
    # string.
    readable = re.sub(r'(?<!\\)((?:\\\\)*)\\"(?!\\")(?!$)', r'\1"', escaped) if '\\"\\"' not in escaped else escaped
    return f'    """{readable}\n    """'


def signature(name: str, parameters: list[str], result: str) -> str:
    line = f"def {name}({', '.join(parameters)}) -> {result}:"
    if len(line) <= LINE_LENGTH:
        return line
    return f"def {name}(\n" + "".join(f"    {parameter},\n" for parameter in parameters) + f") -> {result}:"


def call_text(name: str, arguments: list[str], indent: int = 4, keyword: str = "return ") -> str:
    """A call at `indent` after `keyword`, on one line where it fits."""
    line = f"{name}({', '.join(arguments)})"
    if indent + len(keyword) + len(line) <= LINE_LENGTH:
        return line
    space = " " * indent
    return f"{name}(\n" + "".join(f"{space}    {argument},\n" for argument in arguments) + f"{space})"


def tuple_text(items: list[str]) -> str:
    return f"({', '.join(items)}{',' if len(items) == 1 else ''})"


def literal(text: str) -> str:
    """A Python string literal with double quotes, as a formatter would write it."""
    plain = ascii(text)
    return plain if '"' in plain or plain.startswith('"') else f'"{plain[1:-1]}"'


def long_literal(text: str) -> str:
    """A literal as an argument of its own line: in parts, one below the other, where it does not fit."""
    pieces = [""]
    for word in re.findall(r"\S+\s*", text):
        if len(pieces[-1]) + len(word) > LINE_LENGTH - 8:
            pieces.append("")
        pieces[-1] += word
    return "\n    ".join(literal(piece) for piece in pieces)
