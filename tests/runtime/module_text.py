"""What the text of a generated module is held to."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

HOSTILE = [
    '"""\nimport os\nos.system("true")\n"""',
    "\\",
    '\\"""',
    'ends in a quote"',
    'ends in four""""',
    "line\r\nbreaks\x0b\x0c\x1c\u2028\u2029 and \x00 zero",
    "\u202egnirts\u202c {braces} %s %(name)s {0.__class__}",
    "\N{LATIN SMALL LIGATURE FI} · ᵀ \\N{BULLET} \\x41 \\u0041",
    "'" * 7,
    "a" * 500,
    "{{ name }} {% endfilter %} {# # {{ 7 * '7' }}",
    "",
]
"""Texts of specs that try to become something else: Python, formats, templates."""


def shape(text: str) -> str:
    """The syntax tree without the values of strings: what runs, apart from what is said."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            node.value = ""
    return ast.dump(tree)


def check_format(text: str, directory: Path) -> None:
    """Ruff has nothing to say about the module, and would not change it."""
    path = directory / "wrapper.py"
    path.write_text(text, encoding="utf-8")
    for command in (["format", "--check", "--diff"], ["check", "--select", "E,F,UP,B,N"]):
        arguments = [sys.executable, "-m", "ruff", *command, "--isolated", "--line-length", "110", str(path)]
        run = subprocess.run(arguments, capture_output=True, text=True, check=False)
        assert run.returncode == 0, run.stdout
    assert all(len(line) <= 110 for line in text.splitlines())
