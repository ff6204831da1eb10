"""What machine code of a project was made of goes in; the code, built here and now, comes out."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import iree.compiler  # noqa: F401  # pyright: ignore[reportUnusedImport, reportMissingTypeStubs]

from wavespec.cache import CompileCache
from wavespec.cases_on_machines import cases_on
from wavespec.generate import kernels_in, load_spec, spec_sha256
from wavespec.pipeline import build_part
from wavespec.runtime.code import ArtifactError, Recipe
from wavespec.schema import KernelSpec
from wavespec.schema.cases import TargetCase
from wavespec.targets.machine import machines, variants


def rebuild(recipe: Recipe, cache: CompileCache) -> bytes:
    """Build one kernel of a case for one variant, through ``cache``.

    Errors: `ArtifactError` where the spec, or what wavespec makes of it, is not what the recipe says.
    """
    spec, (*some, every) = _cases(recipe.spec, recipe.spec_sha256, recipe.target)
    case = {None: every, **dict(enumerate(some))}.get(recipe.place.case)
    machine = next((one for one in variants(recipe.target) if one.variant == recipe.variant), None)
    if case is not None and machine is not None:
        kernel = case.spec if recipe.place.step is None else case.kernels[recipe.place.step]
        (binary,) = build_part(kernel, machine, cache).binaries
        if binary.mlir_sha256 == recipe.mlir_sha256:
            return binary.data
    raise ArtifactError(
        f"{spec.name}: this version of wavespec makes other code of {recipe.spec.name} than the one that wrote the "
        "wrapper; run 'wavespec generate'."
    )


@lru_cache(maxsize=8)  # a call of other sizes asks for another case of the same kernel; what the spec says has a sum
def _cases(path: Path, sha256: str, target: str) -> tuple[KernelSpec, tuple[TargetCase, ...]]:
    """The kernel with this sum in a file of specs, and its cases for a target.

    Raises:
        ArtifactError: no kernel there has the sum.
    """
    spec = next((one.spec for one in kernels_in(load_spec(path)) if spec_sha256(one.spec) == sha256), None)
    if spec is None:
        raise ArtifactError(f"{path.name} changed since its wrapper was written; run 'wavespec generate'.")
    return spec, cases_on(spec, target, machines(target))
