"""A kernel and its earlier manifest go in; the kernel with what NVIDIA's assembler says of its PTX comes out."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path

from wavespec.emit.ptxas import Assembled, assemble
from wavespec.runtime.artifact import ArtifactCase, KernelArtifact
from wavespec.runtime.code import ArtifactError, Binary
from wavespec.runtime.manifest import load_artifact, parts_of

_Figures = Mapping[str, tuple[tuple[str, int], ...]]
"""Of binaries, by the sha256 of their code."""


def assembled_figures(assembled: Assembled) -> dict[str, int]:
    """Registers of a thread, bytes that it spills, and notes on lost performance."""
    return {
        "registers": assembled.registers,
        "spilled_bytes": assembled.spill_bytes,
        "warnings": len(assembled.warnings),
    }


def with_assembled_figures(artifact: KernelArtifact, manifest: Path, ptxas: Path | None) -> KernelArtifact:
    """The same, with `assembled_figures` in every binary of PTX.

    Code that the manifest knows keeps the figures that stand there, whichever assembler gave them: on no machine does
    its text change with an installation. Without ``ptxas`` other code goes without.
    """
    known = _known(manifest)
    todo = {binary.sha256: binary for binary in _ptx(artifact) if binary.sha256 not in known}
    if ptxas is not None and todo:
        with ThreadPoolExecutor(os.cpu_count()) as pool:  # each waits for a process
            known |= zip(todo, pool.map(partial(_figures, artifact.architecture, ptxas), todo.values()), strict=True)
    return _with_figures(artifact, known)


def _ptx(artifact: KernelArtifact) -> Iterator[Binary]:
    return (binary for _, part in parts_of(artifact) for binary in part.binaries if binary.format == "ptx")


def _known(manifest: Path) -> dict[str, tuple[tuple[str, int], ...]]:
    try:
        found = load_artifact(manifest)
    except ArtifactError:
        return {}
    return {binary.sha256: binary.figures for binary in _ptx(found) if "registers" in dict(binary.figures)}


def _figures(architecture: str, ptxas: Path, binary: Binary) -> tuple[tuple[str, int], ...]:
    return (*binary.figures, *assembled_figures(assemble(binary.data, architecture, ptxas)).items())


def _with_figures(artifact: KernelArtifact, known: _Figures) -> KernelArtifact:
    steps = tuple(_with_figures(step, known) for step in artifact.steps)
    binaries = tuple(replace(one, figures=known.get(one.sha256, one.figures)) for one in artifact.binaries)
    cases = tuple(ArtifactCase(case.conditions, _with_figures(case.kernel, known)) for case in artifact.cases)
    return replace(artifact, binaries=binaries, cases=cases, steps=steps)
