"""A file with a family or a kernel with `dtypes`, or its text, goes in; the family with all its members, or all its
mistakes, comes out."""

from __future__ import annotations

import os
from pathlib import Path

from wavespec.diagnostics import WavespecError
from wavespec.schema.families.expand import Family, expand
from wavespec.schema.families.members import is_family, read_family
from wavespec.schema.families.typed import expand_node
from wavespec.schema.language.errors import UnknownValue
from wavespec.schema.language.family import FamilySpec
from wavespec.schema.load import merged_node
from wavespec.schema.reading.dtype_members import parameters_of
from wavespec.schema.reading.source_files import read_text
from wavespec.schema.reading.spec_file import SpecFile
from wavespec.schema.reading.yaml_source import MappingNode, ScalarNode, yaml_to_nodes


def load_family(path: str | os.PathLike[str]) -> Family:
    """Read and expand the family at `path`, and check its members.

    Raises:
        WavespecError: with a diagnostic for every mistake, sorted by position.
    """
    file = Path(path)
    return loads_family(read_text(file, None, follow_links=True), os.fspath(path), file.parent)


def loads_family(text: str, file: str = "<text>", directory: str | os.PathLike[str] | None = None) -> Family:
    """Like `load_family`, for text; `file` is its name in messages, `directory` the folder that it is in, if any.

    Raises:
        WavespecError: with a diagnostic for every mistake, sorted by position.
    """
    base = None if directory is None else Path(directory) / os.path.basename(file)
    node, errors = yaml_to_nodes(text, file)
    if not is_family(node):
        root = merged_node(node, file, base, errors)
        if isinstance(root, MappingNode) and (parameters := parameters_of(root)) is not None:
            return expand_node(root, parameters, errors, file, base)
    return expand(family_spec(text, file, base), base)


def family_spec(text: str, file: str = "<text>", path: Path | None = None) -> FamilySpec:
    """The family that a text has, not expanded; `path` is where it was written, for what it extends.

    Raises:
        WavespecError: with a diagnostic for every mistake of form.
    """
    node, found = yaml_to_nodes(text, file)
    if is_family(node):
        return read_family(node, SpecFile.of(file, path), found)
    kind = node.get("kind") if isinstance(node, MappingNode) else None
    what = str(kind.value) if isinstance(kind, ScalarNode) else "nothing"
    raise UnknownValue((kind or node).span, what, ["Family"], "kind")


def is_family_file(path: str | os.PathLike[str]) -> bool:
    """Whether the file at `path` has several kernels: a family, or a kernel with `dtypes`, its own or those of a spec
    that it extends; `False` too where it cannot be read."""
    try:
        node, _ = yaml_to_nodes(read_text(Path(path), None, follow_links=True), os.fspath(path))
        if is_family(node):
            return True
        root = merged_node(node, os.fspath(path), Path(path), [])
    except WavespecError:
        return False
    return isinstance(root, MappingNode) and root.get("dtypes") is not None


def is_template_file(path: str | os.PathLike[str]) -> bool:
    """Whether the file at `path` is a family that is written as a template; `False` too where it cannot be read."""
    try:
        return is_family(yaml_to_nodes(read_text(Path(path), None, follow_links=True), os.fspath(path))[0])
    except WavespecError:
        return False
