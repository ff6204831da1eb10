"""A compiled part of a kernel goes into the cache and comes out: its manifest by what it was made of, machine code by
its own sha256, where those find it who have no compiler."""

from __future__ import annotations

from wavespec.cache import CompileCache
from wavespec.runtime.artifact import KernelArtifact
from wavespec.runtime.code import ArtifactError, cached_code
from wavespec.runtime.manifest import manifest_text, manifest_to_artifact


def get_part(cache: CompileCache, key: str) -> KernelArtifact | None:
    """What `put_part` kept under ``key``; None where any of it is gone."""

    def code(sha256: str) -> bytes:
        data = cached_code(cache, sha256)
        if data is None:
            raise KeyError(sha256)
        return data

    text = cache.get(key)
    try:
        return None if text is None else manifest_to_artifact(text, code)
    except (KeyError, ArtifactError):
        return None


def put_part(cache: CompileCache, key: str, part: KernelArtifact) -> None:
    """Keep a part: the code first, so that whoever finds the manifest finds all."""
    for binary in part.binaries:
        cache.put(binary.sha256, binary.data)
    cache.put(key, manifest_text(part))
