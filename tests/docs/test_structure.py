"""The table of how the package is built counts what it says, and modules do not need each other in circles."""

from __future__ import annotations

import ast
import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def structure() -> ModuleType:
    spec = importlib.util.spec_from_file_location("structure", DOCS / "structure.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_no_modules_need_each_other(structure: ModuleType) -> None:
    trees = {name: ast.parse(text) for name, text in structure.sources(".").items()}
    assert structure.circles(trees) == "0"


def test_circles_are_found_inside_functions_too(structure: ModuleType) -> None:
    texts = {
        "a.py": "from wavespec.b import x",
        "b.py": "def f():\n    from wavespec import a",
        "c.py": "if TYPE_CHECKING:\n    from wavespec.d import y",
        "d.py": "from wavespec.c import x",
    }
    trees = {name: ast.parse(text) for name, text in texts.items()}
    assert structure.circles(trees) == "1: a and b"


def test_names_attributes_walkers_and_tables_are_counted(structure: ModuleType) -> None:
    text = """
if op.name == "load" or op.name in ("store", "copy") or other.name == name:
    place = op["memory"]
TYPES = {"f32": 4, "f16": 2, "bf16": 2, "f64": 8}
match node:
    case Num() | Name() | Call():
        pass
match node.kind:
    case "sum":
        pass
    case "product":
        pass
"""
    trees = {"lower/x.py": ast.parse(text)}
    assert structure.comparisons_with_names(trees) == 2
    assert structure.attributes_by_name(trees) == ["memory"]
    assert structure.tables_of_types(trees) == 1
    assert structure.walkers(trees) == 2
