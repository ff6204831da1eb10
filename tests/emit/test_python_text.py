"""Text of Python modules: texts stay texts, and a module is what was meant."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from jinja2 import UndefinedError

from wavespec.emit import python_text
from wavespec.emit.python_text import docstring, listed, literal, literal_in_parts, render

ROOT = Path(__file__).parents[2]


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
