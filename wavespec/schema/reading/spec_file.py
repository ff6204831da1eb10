"""A file with a spec, and what stands behind its `extends`, go in; the file that means, and its tree, come out."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from wavespec.diagnostics import WavespecError, quote
from wavespec.schema.reading.source_files import UnsafePath, extended_path, project_root, read_text
from wavespec.schema.reading.yaml_source import Node, ScalarNode, yaml_to_nodes

_MOST_EXTENDS = 8


class ExtendsCycle(WavespecError, code="extends-cycle"):
    """A spec extends itself, directly or through others, or through too many."""


@dataclass(frozen=True, slots=True)
class SpecFile:
    """Where a tree was read: ``name`` in messages; ``chain`` has the files that extend it, the nearest last."""

    name: str
    path: Path | None
    root: Path | None
    """The project, which no base is outside of."""
    chain: tuple[Path, ...] = ()

    @classmethod
    def of(cls, name: str, path: Path | None) -> SpecFile:
        """The file that is read first; without a path, where text is of no file."""
        return cls(name, path, project_root(path) if path else None)

    def base(self, extends: ScalarNode, errors: list[WavespecError]) -> tuple[SpecFile, Node]:
        """The file that ``extends`` means, and its tree; mistakes that leave it usable are added to ``errors``.

        Raises:
            WavespecError: there is none that may be read, or it extends this one.
        """
        text = str(extends.value)
        if self.path is None or self.root is None:
            raise UnsafePath(extends.span, text, "needs a file to start from")
        real = extended_path(text, extends.span, self.path, self.root)
        chain = (*self.chain, self.path.resolve())
        if real in chain:
            raise ExtendsCycle(extends.span, f"{quote(text)} extends this file, so neither can be read.")
        if len(chain) > _MOST_EXTENDS:
            raise ExtendsCycle(extends.span, f"Specs extend each other at most {_MOST_EXTENDS} times.")
        name = os.path.normpath(os.path.join(os.path.dirname(self.name), text))
        node, found = yaml_to_nodes(read_text(real, extends.span, follow_links=False), name)
        errors += found
        return SpecFile(name, real, self.root, chain), node
