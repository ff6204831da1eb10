"""An artifact that was not compiled and an earlier manifest go in; the artifact with the machine code of the manifest,
where that was made of the same MLIR, comes out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from wavespec.runtime.artifact import ArtifactCase, KernelArtifact
from wavespec.runtime.code import ArtifactError, Binary
from wavespec.runtime.manifest import load_artifact


def with_code_of(artifact: KernelArtifact, manifest: Path) -> KernelArtifact:
    """The same; what the manifest has no code for stays as it is, and where it is none, all does."""
    try:
        earlier = load_artifact(manifest)
    except ArtifactError:
        return artifact
    if len(earlier.cases) != len(artifact.cases):
        return artifact
    cases = tuple(
        ArtifactCase(case.conditions, _of_parts(case.kernel, other.kernel))
        for case, other in zip(artifact.cases, earlier.cases, strict=True)
    )
    return replace(_of_member(artifact, earlier), cases=cases)


def _of_parts(artifact: KernelArtifact, earlier: KernelArtifact) -> KernelArtifact:
    parts, others = artifact.parts, earlier.parts
    if len(parts) != len(others):
        return artifact
    return artifact.with_parts(list(map(_of_member, parts, others)))


def _of_member(artifact: KernelArtifact, earlier: KernelArtifact) -> KernelArtifact:
    known = {(binary.label, binary.mlir_sha256): binary for binary in earlier.binaries}

    def found(binary: Binary) -> Binary:
        other = known.get((binary.label, binary.mlir_sha256))
        return binary if other is None else replace(binary, code=other.code, figures=other.figures)

    return replace(artifact, binaries=tuple(map(found, artifact.binaries)))
