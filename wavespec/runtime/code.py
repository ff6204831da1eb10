"""The sha256 of machine code goes in; the code comes out: from a file, the user's cache, or the compiler."""

from __future__ import annotations

import hashlib
import importlib
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from wavespec.runtime.files import read_regular_file

if TYPE_CHECKING:
    from wavespec.cache import CompileCache

BinaryFormat = Literal["vmfb", "ptx", "cubin"]

_MOST_BYTES: Final = 1 << 28
# By name: what runs kernels stands below what makes them, and works without it.
_BUILDER: Final = "wavespec.rebuild"


class ArtifactError(RuntimeError):
    """A compiled kernel that cannot be read, does not fit its wrapper, or has nothing for this machine."""


class PartPlace(NamedTuple):
    """Where in an artifact machine code is: of a case (``None``: the kernel for all sizes), and of a step of that, if
    it has some."""

    case: int | None
    step: int | None = None

    def __str__(self) -> str:
        words = [
            f", {word} {number}" for word, number in zip(("case", "step"), self, strict=True) if number is not None
        ]
        return "".join(words)


@dataclass(frozen=True, slots=True)
class Recipe:
    """What machine code of a project is made of: a place in what is built of a spec, for a variant of a target."""

    spec: Path
    spec_sha256: str
    target: str
    place: PartPlace
    variant: str
    mlir_sha256: str


@dataclass(frozen=True, slots=True)
class StoredCode:
    """Machine code that is looked for when it is needed; `path` is its place beside the manifest."""

    kernel: str
    sha256: str
    size: int
    path: Path
    recipe: Recipe | None = None

    def find(self) -> bytes:
        """The code; `ArtifactError` says what brings it where it is nowhere.

        A file with other bytes, as an update of the project leaves them, is passed over like one that is missing.
        """
        data = self.beside()
        if data is None:
            from wavespec.cache import CompileCache

            cache = CompileCache()
            data = cached_code(cache, self.sha256)
            if data is None:
                data = self._built(cache)
        return data

    def beside(self) -> bytes | None:
        """The code where it is in its place, and has the sha256."""
        try:
            data = read_regular_file(self.path, _MOST_BYTES)
        except OSError:
            return None
        return data if _sha256(data) == self.sha256 else None

    def _built(self, cache: CompileCache) -> bytes:
        recipe = self.recipe
        if recipe is None or not recipe.spec.is_file():
            raise ArtifactError(f"{self._nowhere()} 'wavespec build' writes it again, or install 'wavespec-kernels'.")
        try:
            builder = importlib.import_module(_BUILDER)
        except ImportError as error:
            raise ArtifactError(
                f"{self._nowhere()} pip install 'wavespec[compiler]' to have it built from {recipe.spec.name}, or "
                "'wavespec-kernels', which has it."
            ) from error
        print(f"wavespec: building {self.kernel} for {recipe.variant}{recipe.place} ...", file=sys.stderr, flush=True)
        data: bytes = builder.rebuild(recipe, cache)
        if _sha256(data) != self.sha256:
            raise ArtifactError(
                f"{self.kernel}: the compiler that is installed makes other machine code for {recipe.variant}"
                f"{recipe.place} than the manifest has; install the version that the manifest names, or run 'wavespec "
                "generate'."
            )
        return data

    def _nowhere(self) -> str:
        kind = "has other bytes than its manifest says" if self.path.is_file() else "is missing"
        return f"{self.kernel}: {self.path.name} {kind}, and the cache does not have it."


def cached_code(cache: CompileCache, sha256: str) -> bytes | None:
    """The machine code with this sha256, if the cache has it."""
    data = cache.get(sha256)
    return data if data is not None and _sha256(data) == sha256 else None


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@dataclass(frozen=True, slots=True)
class Binary:
    """Machine code for one variant of the target; `requires` are the CPU features that it may use."""

    label: str
    format: BinaryFormat
    code: bytes | StoredCode
    requires: tuple[str, ...] = ()
    mlir_sha256: str = ""
    """Of the MLIR that it was made of, without locations, and of the flags."""
    figures: tuple[tuple[str, int], ...] = ()
    """What a reader wants to know of it, by name."""

    @property
    def data(self) -> bytes:
        """The code, wherever it is; `ArtifactError` where it is nowhere."""
        return self.code if isinstance(self.code, bytes) else self.code.find()

    @property
    def sha256(self) -> str:
        return _sha256(self.code) if isinstance(self.code, bytes) else self.code.sha256

    @property
    def size(self) -> int:
        """Bytes of the code."""
        return len(self.code) if isinstance(self.code, bytes) else self.code.size
