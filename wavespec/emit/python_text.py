"""The name of a template and what it speaks of go in; the text of a Python module, as a formatter would write it and
checked against what was meant, comes out.

What stands between `{{ }}` of a template is a name that `check_input` let pass, a number, Python made of both, or goes
through `literal` or `docstring`, which see to it that it is one constant.
"""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import groupby
from typing import Any, Protocol

from jinja2 import Environment, PackageLoader, StrictUndefined

from wavespec.emit.fold_lines import LINE_LENGTH, fold_lines


class Parameter(Protocol):
    """What a function of the module takes: a tensor, or a keyword."""

    @property
    def name(self) -> str: ...

    @property
    def type(self) -> str: ...


def render(template: str, defines: Sequence[str], context: dict[str, Any]) -> str:
    """The module that a template makes of `context`: same input, same bytes.

    Args:
        defines: what the module defines, in order; there is nothing else in it but imports.
    """
    written = _environment().get_template(template).render(context)
    text = fold_lines(written)
    module = ast.parse(text)
    assert ast.dump(module) == ast.dump(ast.parse(written)), "folding changed the module"
    assert _defined(module) == list(defines), _defined(module)
    return text


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("wavespec.emit"),
        undefined=StrictUndefined,
        autoescape=False,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    filters: dict[str, Any] = environment.filters
    for function in (
        by_name,
        defaulted,
        docstring,
        given,
        listed,
        literal,
        literal_in_parts,
        names,
        tensor_type,
        tuple_text,
        typed,
        typed_for_people,
    ):
        filters[function.__name__] = function
    return environment


def _defined(module: ast.Module) -> list[str]:
    """The names that a module with docstring defines behind its imports.

    Errors: `AssertionError` for a statement of another kind.
    """
    assert ast.get_docstring(module) is not None
    defined: list[str] = []
    for statement in module.body[1:]:
        match statement:
            case ast.FunctionDef(name=name) | ast.Assign(targets=[ast.Name(id=name)]):
                defined.append(name)
            case _:
                assert isinstance(statement, ast.Import | ast.ImportFrom) and not defined, ast.dump(statement)
    return defined


def docstring(text: str) -> str:
    """A docstring of the lines of `text`, which are indented as in the function; those of a spec need not be."""
    # Control and direction characters would let the docstring look like something else than it is.
    clean = "".join(char if char.isprintable() or char == "\n" else " " for char in text)
    lines = "\n".join(_wrapped(line) for line in clean.strip().split("\n")).strip()
    escaped = lines.replace("\\", "\\\\")
    if '""' in escaped:
        escaped = escaped.replace('"', '\\"')
    return "    " + _checked(f'"""{escaped}\n    """', f"{lines}\n    ") + "\n"


def _wrapped(line: str) -> str:
    """A line of a docstring in several; below an indented one the others are indented more."""
    depth = max(4, len(line) - len(line.lstrip()))
    return textwrap.fill(
        line.strip(),
        min(LINE_LENGTH, depth + LINE_LENGTH - 8),
        initial_indent=" " * depth,
        subsequent_indent=" " * (depth if depth == 4 else depth + 4),
    )


def literal(value: str | int) -> str:
    """A Python literal, strings with double quotes, as a formatter would write it."""
    plain = ascii(value)
    is_plain = isinstance(value, int) or '"' in plain
    return _checked(plain if is_plain else f'"{plain[1:-1]}"', value)


def literal_in_parts(text: str) -> str:
    """A literal as an argument of its own line: in parts, one below the other, where it does not fit."""
    pieces = [""]
    for word in re.findall(r"\S*\s*", text):
        if len(pieces[-1]) + len(word) > LINE_LENGTH - 8:
            pieces.append("")
        pieces[-1] += word
    return "\n    ".join(literal(piece) for piece in pieces)


def _checked(code: str, value: str | int) -> str:
    """``code``, which has to be one constant and nothing else."""
    body = ast.parse(code).body
    match body:
        case [ast.Expr(value=ast.Constant(value=actual))] if actual == value:
            return code
        case _:
            raise AssertionError(f"{value!r} is not {code}")


def listed(words: Iterable[str], joint: str) -> str:
    """Words of a sentence, with ``joint`` before the last."""
    *most, last = words
    return f"{', '.join(most)} {joint} {last}" if most else last


def names(parameters: Iterable[Parameter]) -> str:
    return ", ".join(one.name for one in parameters)


def given(tensors: Iterable[Parameter]) -> str:
    """Tensors as a kernel takes them: without those that a call left out."""
    texts: list[str] = []
    for is_optional, some in groupby(tensors, lambda one: "None" in one.type):
        joined = names(some)
        texts.append(f"*given_tensors({joined})" if is_optional else joined)
    return ", ".join(texts)


def typed(parameters: Iterable[Parameter]) -> str:
    return ", ".join(f"{one.name}: {one.type}" for one in parameters)


def typed_for_people(parameters: Iterable[Parameter]) -> str:
    """Parameters that a call may leave out where they may be None."""
    return ", ".join(f"{one.name}: {one.type}" + (" = None" if "None" in one.type else "") for one in parameters)


class Scalar(Parameter, Protocol):
    """A number that a function of the module takes."""

    @property
    def default(self) -> str: ...

    @property
    def is_defaulted(self) -> bool: ...


def by_name(scalars: Iterable[Scalar]) -> str:
    """Parameters that are passed by name, behind others."""
    return "".join(f", {one.name}: {one.type}" + (f" = {one.default}" if one.default else "") for one in scalars)


def defaulted(scalars: Iterable[Scalar]) -> str:
    """Parameters of what torch calls, behind others, with the defaults that the schema has."""
    texts = (f", {one.name}: {one.type}" + (f" = {one.default}" if one.is_defaulted else "") for one in scalars)
    return "".join(texts)


def tensor_type(tensors: Sequence[Parameter]) -> str:
    """Of what a function returns."""
    types = ", ".join(one.type for one in tensors)
    return f"tuple[{types}]" if len(tensors) > 1 else types or "None"


def tuple_text(items: Iterable[str]) -> str:
    items = [*items]
    return f"({', '.join(items)}{',' if len(items) == 1 else ''})"
