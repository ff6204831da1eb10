"""No code of the package can run text or unpickle data, whatever a spec says."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import wavespec

FILES_ROOT = Path(wavespec.__file__).parent
FILES = sorted(FILES_ROOT.rglob("*.py"))
CALLS = {"eval", "exec", "sympify", "lambdify", "full_load", "unsafe_load", "load_all", "from_string"}
SANDBOX = {Path("schema", "families", name) for name in ("sandbox.py", "template.py")}
OWN_TEMPLATES = Path("emit", "python_text.py")
MODULES = {"sympy.parsing", "pickle", "marshal", "shelve", "dill", "cloudpickle", "jinja2"}


def forbidden(tree: ast.AST) -> list[str]:
    found: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            name = getattr(node.func, "id", getattr(node.func, "attr", ""))
            owner = getattr(getattr(node.func, "value", None), "id", "")
            if name in CALLS or (owner == "yaml" and name == "load") or (owner in ("sympy", "sp") and name == "S"):
                found.append(f"{node.lineno}: {name}")
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else [a.name for a in node.names]
            found += [
                f"{node.lineno}: {name}"
                for name in names
                if MODULES & {name, name.split(".")[0], ".".join(name.split(".")[:2])}
            ]
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_file_calls_nothing_that_executes_text(path: Path) -> None:
    found = forbidden(ast.parse(path.read_text()))
    if path.relative_to(FILES_ROOT) in {*SANDBOX, OWN_TEMPLATES}:
        found = [one for one in found if "jinja2" not in one]
    assert found == []


def test_templates_of_specs_run_in_the_sandbox_only() -> None:
    import jinja2
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    from wavespec.schema.families import sandbox, template

    modules = (sandbox, template)
    environments = [
        value for module in modules for value in vars(module).values() if isinstance(value, jinja2.Environment)
    ]
    assert environments and all(isinstance(one, ImmutableSandboxedEnvironment) for one in environments)
    for one in environments:
        assert one.loader is None and not one.extensions and set(one.globals) == {"range"}
        assert one.undefined is jinja2.StrictUndefined


def test_wrappers_are_made_of_the_templates_of_the_package() -> None:
    import jinja2

    from wavespec.emit.python_text import _environment  # pyright: ignore[reportPrivateUsage]

    environment = _environment()
    assert isinstance(environment.loader, jinja2.PackageLoader) and not environment.extensions
    assert environment.undefined is jinja2.StrictUndefined
    assert environment.list_templates() == ["family.py.jinja", "kernel.py.jinja", "parts.py.jinja"]


def test_the_search_finds_what_it_is_for() -> None:
    lines = ["import pickle", "from jinja2 import Template", "from sympy.parsing import a", "eval(1)"]
    lines += ["sympy.sympify(x)", "sympy.S(x)", "yaml.load(x)", "environment.from_string(x)"]
    bad = "\n".join(lines)
    assert len(forbidden(ast.parse(bad))) == 8
