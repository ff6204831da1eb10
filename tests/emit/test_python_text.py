"""Text of Python modules: long lines are folded without a change of what they mean, and texts stay texts."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from jinja2 import UndefinedError

from wavespec.emit import python_text
from wavespec.emit.python_text import docstring, listed, literal, literal_in_parts, render

ROOT = Path(__file__).parents[2]
LONG = "a_name_that_is_long_enough_for_a_line_to_be_folded"


def folded(line: str) -> str:
    return python_text._fold(line)  # pyright: ignore[reportPrivateUsage]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (f"f({LONG})", f"f({LONG})"),
        (f"f({LONG}, {LONG}, {LONG})", f"f(\n    {LONG},\n    {LONG},\n    {LONG},\n)"),
        (f"f(a).g({LONG}, {LONG}).b", f"f(a).g(\n    {LONG},\n    {LONG},\n).b"),
        (f"{LONG}1({LONG}, ')', {LONG})", f"{LONG}1(\n    {LONG},\n    ')',\n    {LONG},\n)"),
        (f'f({LONG}, "(\\"", [{LONG}])', f'f(\n    {LONG},\n    "(\\"",\n    [{LONG}],\n)'),
        (f"{LONG} = ({LONG}, {LONG},)", f"{LONG} = (\n    {LONG},\n    {LONG},\n)"),
        (f"{LONG}{LONG}{LONG} = (a,)", f"{LONG}{LONG}{LONG} = (\n    a,\n)"),
        (f"{LONG}{LONG} = {LONG}[0] + (a)", f"{LONG}{LONG} = {LONG}[0] + (a)"),
        (f'"""{LONG}, ({LONG}, {LONG})\n"""', f'"""{LONG}, ({LONG}, {LONG})\n"""'),
        (f"# One sentence. {LONG} {LONG}", f"# One sentence.\n# {LONG} {LONG}"),
    ],
)
def test_long_lines_are_folded(line: str, expected: str) -> None:
    assert folded(line) == expected
    assert ast.dump(ast.parse(folded(line))) == ast.dump(ast.parse(line))


def test_definitions_are_folded_at_their_parameters() -> None:
    line = f"def f({LONG}: Tensor, {LONG}: Tensor) -> tuple[Tensor, Tensor]:\n    pass"
    expected = f"def f(\n    {LONG}: Tensor,\n    {LONG}: Tensor,\n) -> tuple[Tensor, Tensor]:\n    pass"
    assert folded(line) == expected


def test_conditions_are_folded_at_or() -> None:
    line = f"if a and ({LONG} or {LONG}):\n    pass"
    assert folded(line) == f"if a and (\n    {LONG} or {LONG}\n):\n    pass"
    line = f"if a and ({LONG}{LONG}.b or {LONG}.c):\n    pass"
    assert folded(line) == f"if a and (\n    {LONG}{LONG}.b\n    or {LONG}.c\n):\n    pass"


def test_lines_of_a_docstring_are_wrapped_below_their_own_indent() -> None:
    text = f"    What is said.\nMore.\n\n    Args:\n        a: {'word ' * 30}\n"
    words = ("word " * 20).strip(), ("word " * 10).strip()
    expected = f'    """What is said.\n    More.\n\n    Args:\n        a: {words[0]}\n            {words[1]}\n    """\n'
    assert docstring(text) == expected


@pytest.mark.parametrize("text", ['"', '""', '"""', "\\", '\\"""', "'", "'\"", "\x00\r\u2028é", '"quoted"', ""])
def test_texts_stay_texts(text: str) -> None:
    assert ast.literal_eval(literal(text)) == text
    assert ast.literal_eval(f"({literal_in_parts(f'{text} ' * 60)})") == f"{text} " * 60
    said = "".join(char if char.isprintable() else " " for char in text).strip()
    assert ast.literal_eval(docstring(text).strip()) == f"{said}\n    "


def test_words_of_a_sentence_are_listed() -> None:
    assert [listed(words, "or") for words in (["a"], ["a", "b"], ["a", "b", "c"])] == ["a", "a or b", "a, b or c"]


def test_a_template_says_what_it_misses() -> None:
    with pytest.raises(UndefinedError, match="source"):
        render("kernel.py.jinja", [], {})


@pytest.mark.parametrize(
    "module",
    [
        '"""Doc."""\nimport a\ndef f(): ...\nb = 1\n',
        '"""Doc."""\nimport a\nf()\n',
        '"""Doc."""\nf = 1\nimport a\n',
        "f = 1\n",
    ],
)
def test_modules_define_what_was_meant_and_nothing_else(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import jinja2

    environment = jinja2.Environment(loader=jinja2.DictLoader({"template": module}))
    monkeypatch.setattr(python_text, "_environment", lambda: environment)
    with pytest.raises(AssertionError):
        render("template", ["f"], {})


def test_wheels_have_the_templates() -> None:
    from hatchling.builders.wheel import WheelBuilder

    files = {file.distribution_path for file in WheelBuilder(str(ROOT)).recurse_included_files()}
    templates = {path.name for path in (ROOT / "wavespec" / "emit" / "templates").iterdir()}
    assert templates and {f"wavespec/emit/templates/{name}" for name in templates} <= files
