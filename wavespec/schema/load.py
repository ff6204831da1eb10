"""A `.wave.yaml` file, or its text, goes in; a checked `KernelSpec`, or all its mistakes, comes out."""

from __future__ import annotations

import os
from pathlib import Path

from wavespec.diagnostics import Diagnostic, WavespecError, in_order, quote, raise_all
from wavespec.schema.check import check_kernel
from wavespec.schema.errors import MissingField, WrongType
from wavespec.schema.models import KernelSpec
from wavespec.schema.source_files import UnsafePath, extended_path, project_root, read_text
from wavespec.schema.yaml_source import Entry, MappingNode, Node, ScalarNode, yaml_to_nodes
from wavespec.schema.yaml_to_spec import nodes_to_spec

_MOST_EXTENDS = 8


class ExtendsCycle(WavespecError, code="extends-cycle"):
    """A spec extends itself, directly or through others, or through too many."""


def load(path: str | os.PathLike[str]) -> KernelSpec:
    """Read, resolve `extends`, and check the spec at `path`.

    Raises:
        WavespecError: with a diagnostic for every mistake, sorted by position.
    """
    return load_with_warnings(path)[0]


def load_with_warnings(path: str | os.PathLike[str]) -> tuple[KernelSpec, tuple[Diagnostic, ...]]:
    """Like `load`, with what is suspicious but allowed."""
    file = Path(path)
    return _text_to_spec(read_text(file, None, follow_links=True), os.fspath(path), file)


def loads(text: str, file: str = "<text>", directory: str | os.PathLike[str] | None = None) -> KernelSpec:
    """Like `load`, for text; `file` is its name in messages, `directory` is what `extends` starts from.

    Raises:
        WavespecError: with a diagnostic for every mistake, sorted by position.
    """
    base = None if directory is None else Path(directory) / "spec"
    return _text_to_spec(text, file, base)[0]


def _text_to_spec(text: str, name: str, path: Path | None) -> tuple[KernelSpec, tuple[Diagnostic, ...]]:
    errors: list[WavespecError] = []
    root = project_root(path) if path else None
    node = _read_with_extends(text, name, path, root, errors, ())
    result = nodes_to_spec(node)
    errors += result.errors
    if result.spec is not None:
        errors += check_kernel(result.spec, result.broken, is_whole=not errors)
    raise_all(errors)
    assert result.spec is not None
    return result.spec, in_order(diagnostic for error in errors for diagnostic in error.diagnostics)


def _read_with_extends(
    text: str,
    name: str,
    path: Path | None,
    root: Path | None,
    errors: list[WavespecError],
    chain: tuple[Path, ...],
) -> Node:
    node, found = yaml_to_nodes(text, name)
    errors += found
    if not isinstance(node, MappingNode) or (extends := node.get("extends")) is None:
        return node
    own = MappingNode(tuple(entry for entry in node.entries if entry.key != "extends"), node.span)
    for field in ("apiVersion", "kind"):
        if own.get(field) is None:
            # A file says itself what it is: it is read by editors and by people without its base.
            errors.append(MissingField(node.entries[0].key_span, field, "A kernel"))
    if not isinstance(extends, ScalarNode) or not isinstance(extends.value, str):
        errors.append(WrongType(extends.span, "a relative path", "something else"))
        return own
    if path is None or root is None:
        raise UnsafePath(extends.span, extends.value, "needs a file to start from")
    real = extended_path(extends.value, extends.span, path, root)
    chain = (*chain, path.resolve())
    if real in chain:
        raise ExtendsCycle(extends.span, f"{quote(extends.value)} extends this file, so neither can be read.")
    if len(chain) > _MOST_EXTENDS:
        raise ExtendsCycle(extends.span, f"Specs extend each other at most {_MOST_EXTENDS} times.")
    base_name = os.path.normpath(os.path.join(os.path.dirname(name), extends.value))
    base_text = read_text(real, extends.span, follow_links=False)
    return _merge(_read_with_extends(base_text, base_name, real, root, errors, chain), own)


def _merge(base: Node, child: Node) -> Node:
    """The child's values over those of the base, mapping by mapping; a list replaces the base's."""
    if not isinstance(base, MappingNode) or not isinstance(child, MappingNode):
        return child
    mine = {entry.key: entry for entry in child.entries}
    merged: list[Entry] = []
    for entry in base.entries:
        over = mine.pop(entry.key, None)
        merged.append(entry if over is None else Entry(over.key, over.key_span, _merge(entry.value, over.value)))
    return MappingNode((*merged, *mine.values()), child.span)
