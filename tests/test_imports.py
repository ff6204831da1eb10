"""Imports follow the flow of the layout, and nothing in the package executes text."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

from wavespec.tune.bundle import MEASURING

PACKAGE = Path(__file__).parents[1] / "wavespec"
MODULES = sorted(path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py"))
ALLOWED = {
    "ir": ("ir", "diagnostics"),
    "targets": ("targets", "ir", "diagnostics", "architecture", "yaml_loader", "runtime.cpu_features"),
    "schema": ("schema", "ir.dtype", "ir.strided", "targets.names", "diagnostics", "yaml_loader"),
    "ops": (
        "ops",
        "ir",
        "targets",
        "schema.ops",
        "schema.language.expressions",
        "schema.language.scalars",
        "schema.resolved",
        "diagnostics",
    ),
    "schedule": ("schedule", "ir", "targets", "diagnostics"),
    "lower": ("lower", "schedule", "ops", "ir", "targets", "schema", "diagnostics"),
    "sim": (
        "sim",
        "ir",
        "ops",
        "targets",
        "schema",
        "diagnostics",
        "runtime.scalars",
        "runtime.scalar_arguments",
    ),
    "emit": (
        "emit",
        "ir",
        "ops.dim_sizes",
        "targets",
        "schema",
        "diagnostics",
        "cache",
        "runtime.artifact",
        "runtime.code",
        "runtime.scalars",
        "runtime.size_expr",
    ),
    "runtime": ("runtime", "ir.dtype", "ir.strided", "version", "cache", "architecture"),
    "tune": (
        "cases_on_machines",
        "tune",
        "pipeline",
        "cache",
        "version",
        "lower",
        "sim",
        "emit",
        "ir",
        "targets",
        "schema",
        "runtime",
        "diagnostics",
    ),
}
"""What the modules of each folder may import of the package."""
ROOMS = {
    "language": ("language", "ops"),
    "ops": ("language", "ops"),
    "reading": ("reading", "language", "ops"),
    "plans": (
        *("plans", "checking", "joined_dims", "made_kernels", "materialize", "packed_rows", "parted_loops"),
        *(
            "products_before",
            "renamed_dims",
            "residues",
            "resolve",
            "split_loops",
            "sums_before",
            "tiled_loops",
            "walked_dims",
            "whole_accesses",
            "windows_of_rows",
            "language",
            "ops",
        ),
    ),
    "residues": ("residues", "checking.check_graph", "made_kernels", "unused_ops", "resolve", "language", "ops"),
    "checking": (
        *("checking", "cases", "materialize", "packed_rows", "parted_loops", "resolve", "rows_with_room"),
        *("language", "ops"),
    ),
    "families": ("families", "load", "resolve", "checking", "reading", "language", "ops"),
}
"""What the modules of each folder of `schema/` may import of it."""
CHIPS = ("gfx", "sm_", "x86", "aarch64", "h100", "h200", "mi300")
EXECUTES = frozenset(("eval", "exec", "compile", "__import__", "sympify", "parse_expr", "literal_eval"))
OWN_PARSER = (
    "wavespec.ir.expr_parser"  # its `parse_expr` reads index expressions, and shares only the name with sympy's
)


@cache
def tree(module: str) -> ast.Module:
    return ast.parse((PACKAGE / module).read_text(encoding="utf-8"))


@cache
def nodes(module: str) -> tuple[ast.AST, ...]:
    return tuple(ast.walk(tree(module)))


@cache
def imported(module: str) -> frozenset[str]:
    """Every module that a file imports, at its top or inside functions."""
    names: set[str] = set()
    for node in nodes(module):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}:{node.lineno} imports relatively"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return frozenset(names)


def test_every_folder_has_its_rule() -> None:
    folders = {module.split("/")[0] for module in MODULES if "/" in module}
    assert folders == {*ALLOWED, "cli"}


@pytest.mark.parametrize("module", [module for module in MODULES if "/" in module and not module.startswith("cli/")])
def test_imports_follow_the_flow(module: str) -> None:
    allowed = tuple(f"wavespec.{name}" for name in ALLOWED[module.split("/")[0]])
    inside = {name for name in imported(module) if name.split(".")[0] == "wavespec"}
    assert {name for name in inside if not any(f"{name}.".startswith(f"{prefix}.") for prefix in allowed)} == set()


@pytest.mark.parametrize("module", [module for module in MODULES if module.count("/") == 2 and "schema/" in module])
def test_imports_follow_the_flow_of_the_front_end(module: str) -> None:
    allowed = tuple(f"wavespec.schema.{name}." for name in ROOMS[module.split("/")[1]])
    inside = {f"{name}." for name in imported(module) if name.startswith("wavespec.schema.")}
    assert {name for name in inside if not name.startswith(allowed)} == set()


@pytest.mark.parametrize(
    "module", [module for module in MODULES if not module.startswith("cli/") and module != "__main__.py"]
)
def test_only_the_entry_point_imports_the_command_line(module: str) -> None:
    assert not {
        name for name in imported(module) if name.startswith("wavespec.cli") or name.split(".")[0] in ("typer", "rich")
    }


@pytest.mark.parametrize("module", [module for module in MODULES if module.startswith("runtime/")])
def test_runtime_needs_no_compiler_and_no_schema(module: str) -> None:
    outside = {"jinja2", "pydantic", "pydantic_core", "sympy", "yaml", "typer", "rich"}
    names = imported(module)
    assert not {name for name in names if name.split(".")[0] in outside or name.startswith("iree.compiler")}


@pytest.mark.parametrize("module", [module for module in MODULES if module.startswith(MEASURING)])
def test_a_bundle_carries_what_it_needs(module: str) -> None:
    at_its_top = {node.module for node in tree(module).body if isinstance(node, ast.ImportFrom) and node.module}
    needed = {name.removeprefix("wavespec.").replace(".", "/") for name in at_its_top if name.startswith("wavespec.")}
    assert {name for name in needed if not f"{name}.py".startswith(MEASURING)} == set()


@pytest.mark.parametrize(
    "module", [m for m in MODULES if m.startswith(("lower/", "schedule/", "ir/", "ops/", "schema/ops/"))]
)
def test_passes_and_ops_name_no_chip(module: str) -> None:
    texts = [
        node.value.lower() for node in nodes(module) if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    names = [node.id.lower() for node in nodes(module) if isinstance(node, ast.Name)]
    documentation = {
        ast.get_docstring(node, clean=False)
        for node in nodes(module)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
    }
    code = [text for text in texts if text not in {doc.lower() for doc in documentation if doc}]
    assert not [text for text in (*code, *names) if any(chip in text for chip in CHIPS)]


@pytest.mark.parametrize("module", MODULES)
def test_nothing_executes_text(module: str) -> None:
    names = imported(module)
    assert not {name for name in names if name.split(".")[0] in ("pickle", "marshal", "shelve", "dill", "cloudpickle")}
    assert not {
        name
        for name in names
        if name.split(".")[-1] in EXECUTES and not name.startswith((OWN_PARSER, "wavespec.pipeline", "re."))
    }
    for node in nodes(module):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in EXECUTES:
            ours = {f"{OWN_PARSER}.{node.func.id}", f"wavespec.pipeline.{node.func.id}"} & names or (
                module == "ir/expr_parser.py" and node.func.id == "parse_expr"
            )
            assert ours, f"{module}:{node.lineno} calls {node.func.id}"
        if isinstance(node, ast.Attribute) and node.attr in ("sympify", "parse_expr", "literal_eval"):
            raise AssertionError(f"{module}:{node.lineno} uses {node.attr}")


@pytest.mark.parametrize("module", MODULES)
def test_one_module_decides_how_yaml_is_read(module: str) -> None:
    """That of libyaml, where it is there: another loader elsewhere would take five times as long."""
    loaders = {"Loader", "SafeLoader", "CLoader", "CSafeLoader", "FullLoader", "safe_load", "load_all"}
    attributes = {node.attr for node in nodes(module) if isinstance(node, ast.Attribute)}
    texts = {node.value for node in nodes(module) if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    assert module == "yaml_loader.py" or not loaders & (attributes | texts)
