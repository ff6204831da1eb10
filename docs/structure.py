"""States of the repository go in; a table of how the package is built comes out, one column for each state.

    python docs/structure.py               the working tree
    python docs/structure.py v0.3 HEAD .   states as Git names them, and the working tree

It counts what makes a change expensive: places that know an operation by its name, tables of the same thing, long
functions and files, modules that import each other.
"""

from __future__ import annotations

import ast
import io
import subprocess
import sys
import tarfile
from collections.abc import Callable, Container, Iterator, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
DTYPES = {"f64", "f32", "f16", "bf16", "i64", "i32", "i16", "i8", "u8", "bool", "i4", "f8e4m3fn", "f8e5m2", "f4e2m1fn"}
SYNTAX = frozenset(["Num", "Name", "Unary", "Binary", "Compare", "Call"])
INDICES = frozenset(["const", "symbol", "sum", "product", "floordiv", "mod", "min", "max", "xor"])
DECLARATIONS = ("ir/tile_ops.py", "ir/thread_ops.py", "ir/declarations.py")
Trees = Mapping[str, ast.Module]
Sources = Mapping[str, str]


def sources(state: str) -> Sources:
    """The text of every module of the package, by its path in it."""
    if state == ".":
        package = ROOT / "wavespec"
        return {path.relative_to(package).as_posix(): path.read_text("utf-8") for path in package.rglob("*.py")}
    packed = subprocess.run(["git", "archive", state, "wavespec"], cwd=ROOT, check=True, capture_output=True).stdout
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        files = {one.name.removeprefix("wavespec/"): archive.extractfile(one) for one in archive if one.isfile()}
        return {name: file.read().decode() for name, file in files.items() if file and name.endswith(".py")}


def comparisons_with_names(trees: Trees) -> int:
    """``op.name == "load"`` and ``op.name in ("load", "store")``, outside of the declarations."""

    def is_one(node: ast.AST) -> bool:
        if not isinstance(node, ast.Compare) or not isinstance(node.left, ast.Attribute) or node.left.attr != "name":
            return False
        parts = (part for other in node.comparators for part in ast.walk(other))
        return any(isinstance(part, ast.Constant) and isinstance(part.value, str) and part.value for part in parts)

    outside = (tree for name, tree in trees.items() if name not in DECLARATIONS)
    return sum(is_one(node) for tree in outside for node in ast.walk(tree))


def comparisons_with_operations(trees: Trees) -> int:
    """``op.is_(LOAD, STORE)``: with one that is named, not with all that have a trait."""

    def is_by_trait(node: ast.AST) -> bool:
        return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "having"

    named = (node for tree in trees.values() for node in ast.walk(tree) if isinstance(node, ast.AnnAssign))
    traits = {ast.unparse(node.target) for node in named if node.value is not None and is_by_trait(node.value)}

    def is_one(node: ast.AST) -> bool:
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or node.func.attr != "is_":
            return False
        return not {ast.unparse(part) for argument in node.args for part in ast.walk(argument)} <= traits

    return sum(is_one(node) for tree in trees.values() for node in ast.walk(tree))


def attributes_by_name(trees: Trees) -> list[str]:
    """The keys of ``op["memory"]``, wherever operations are looked at."""
    rooms = ("lower/", "schedule/", "ops/", "emit/", "sim/", "ir/")
    nodes = (node for name, tree in trees.items() if name.startswith(rooms) for node in ast.walk(tree))
    return [
        node.slice.value
        for node in nodes
        if isinstance(node, ast.Subscript)
        and isinstance(node.value, ast.Name)
        and isinstance(node.slice, ast.Constant)
        and isinstance(node.slice.value, str)
    ]


def untyped_attributes(trees: Trees) -> int:
    """``op["value"]`` and ``op.attribute(key)``: of which the type checker knows nothing."""
    keys = trees.get("ir/attribute_keys.py")
    known = set[object]()
    for node in ast.walk(keys) if keys else ():
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) not in ("Mixed", "Table"):
            known |= {part.value for part in ast.walk(node.value) if isinstance(part, ast.Constant)}
    nodes = [node for tree in trees.values() for node in ast.walk(tree)]
    dynamic = sum(isinstance(node, ast.Attribute) and node.attr == "attribute" for node in nodes)
    return dynamic + sum(key not in known for key in attributes_by_name(trees))


def walkers(trees: Trees) -> int:
    """``match`` statements over the nodes of an expression, of a spec or of indices."""

    def is_one(node: ast.AST) -> bool:
        if not isinstance(node, ast.Match):
            return False
        patterns = [part for case in node.cases for part in ast.walk(case.pattern)]
        classes = {
            part.cls.id for part in patterns if isinstance(part, ast.MatchClass) and isinstance(part.cls, ast.Name)
        }
        values = {
            part.value.value
            for part in patterns
            if isinstance(part, ast.MatchValue) and isinstance(part.value, ast.Constant)
        }
        return len(classes & SYNTAX) >= 3 or len(values & INDICES) >= 2

    return sum(is_one(node) for tree in trees.values() for node in ast.walk(tree))


def tables_of_types(trees: Trees) -> int:
    """Displays that name four element types or more."""

    def is_one(node: ast.AST) -> bool:
        if isinstance(node, ast.Dict):
            parts = [*node.keys, *node.values]
        elif isinstance(node, (ast.Tuple, ast.Set, ast.List)):
            parts = node.elts
        else:
            return False
        return len({part.value for part in parts if isinstance(part, ast.Constant)} & DTYPES) >= 4

    return sum(is_one(node) for tree in trees.values() for node in ast.walk(tree))


def functions(trees: Trees) -> Iterator[tuple[int, str]]:
    for name, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                yield (node.end_lineno or node.lineno) - node.lineno + 1, f"{node.name} ({name})"


def circles(trees: Trees) -> str:
    """Groups of modules that need each other, whether they say so at their tops or inside functions."""
    dotted = {name: f"wavespec.{name[:-3].replace('/', '.')}".removesuffix(".__init__") for name in trees}
    modules = {dotted[name]: tree for name, tree in trees.items()}
    graph = {name: imported(tree, modules) - {name} for name, tree in modules.items()}
    reached = {name: _reached(graph, name) for name in graph}
    groups = {frozenset(other for other in reached[name] if name in reached[other]) for name in graph} - {frozenset()}
    shown = (" and ".join(sorted(one.removeprefix("wavespec.") for one in group)) for group in groups)
    return f"{len(groups)}: {', '.join(sorted(shown))}" if groups else "0"


def imported(tree: ast.Module, modules: Container[str]) -> set[str]:
    """Those of ``modules`` that one imports, or imports something of."""
    typing = {
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    found = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node not in typing]
    pairs = ((str(node.module), f"{node.module}.{alias.name}") for node in found for alias in node.names)
    return {name for module, inner in pairs if (name := inner if inner in modules else module) in modules}


def _reached(graph: Mapping[str, set[str]], start: str) -> set[str]:
    found: set[str] = set()
    waiting = list(graph[start])
    while waiting:
        if (name := waiting.pop()) not in found:
            found.add(name)
            waiting += graph[name]
    return found


def in_words(measured: tuple[int, str]) -> str:
    return f"{measured[0]}: {measured[1]}"


MEASURES: Mapping[str, Callable[[Sources, Trees], Any]] = {
    "lines": lambda texts, _: sum(text.count("\n") for text in texts.values()),
    "modules": lambda texts, _: len(texts),
    "comparisons of an operation's name with a literal": lambda _, trees: comparisons_with_names(trees),
    "comparisons of an operation with a declared one": lambda _, trees: comparisons_with_operations(trees),
    "attributes of operations by a literal": lambda _, trees: len(attributes_by_name(trees)),
    "of these and others, unknown to the type checker": lambda _, trees: untyped_attributes(trees),
    "walkers over expressions": lambda _, trees: walkers(trees),
    "tables of element types": lambda _, trees: tables_of_types(trees),
    "longest function, lines": lambda _, trees: in_words(max(functions(trees))),
    "functions over 60 lines": lambda _, trees: sum(lines > 60 for lines, _ in functions(trees)),
    "longest file, lines": lambda texts, _: in_words(max((text.count("\n"), name) for name, text in texts.items())),
    "files over 450 lines": lambda texts, _: sum(text.count("\n") > 450 for text in texts.values()),
    "circles of imports": lambda _, trees: circles(trees),
}


def main(states: list[str]) -> None:
    columns = [sources(state) for state in states]
    trees = [{name: ast.parse(text) for name, text in texts.items()} for texts in columns]
    print(f"| | {' | '.join('working tree' if state == '.' else state for state in states)} |")
    print(f"| --- |{' --- |' * len(states)}")
    for what, measure in MEASURES.items():
        print(f"| {what} | {' | '.join(str(measure(*both)) for both in zip(columns, trees, strict=True))} |")


if __name__ == "__main__":
    main(sys.argv[1:] or ["."])
