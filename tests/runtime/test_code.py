"""Machine code by its sha256: beside the manifest, in the cache, from the compiler, or one error that says what helps."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.cli.command import SMALL
from tests.runtime.generated import import_wrapper
from wavespec.cache import CompileCache
from wavespec.generate import project_files, write_files
from wavespec.pipeline import best_variant
from wavespec.runtime import ArtifactError, Binary, KernelArtifact, load_artifact
from wavespec.runtime.code import PartPlace, StoredCode
from wavespec.runtime.json_text import json_text
from wavespec.runtime.manifest import manifest_text

ROOT = Path(__file__).parents[2]
CODE = b"machine code"
WITH_CASE = SMALL.replace(
    "cpu: {params: {BLOCK_M: 24}}", "cpu: {params: {BLOCK_M: 24}, cases: [{when: [M <= 64], params: {BLOCK_M: 8}}]}"
)


def stored(path: Path, code: bytes = CODE) -> StoredCode:
    return StoredCode("gemm", hashlib.sha256(code).hexdigest(), len(code), path)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CompileCache:
    """An empty one, which the code under test uses."""
    monkeypatch.setenv("WAVESPEC_CACHE", "1")
    monkeypatch.setenv("WAVESPEC_CACHE_DIR", str(tmp_path / "cache"))
    return CompileCache()


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project as Git has it: wrappers and manifests."""
    root = tmp_path_factory.mktemp("project")
    (root / "specs").mkdir()
    (root / "specs" / "small.wave.yaml").write_text(WITH_CASE)
    write_files({name: data for name, data in project_files(root).items() if name.suffix in (".py", ".json")}, root)
    return root


def binaries_of(artifact: KernelArtifact, variant: str) -> Sequence[Binary]:
    return [binary for one in artifact.members for binary in one.binaries if binary.label == variant]


def call(root: Path, rows: int) -> bool:
    """Whether the wrapper of the project, imported anew, computes right with so many rows."""
    a, b = torch.ones(rows, 8).half(), torch.ones(3, 8).half()
    return torch.equal(import_wrapper(root / "generated" / "small.py").small(a, b), torch.full((rows, 3), 8.0))


def test_a_file_beside_the_manifest_comes_first(tmp_path: Path, cache: CompileCache) -> None:
    (tmp_path / "code").write_bytes(CODE)
    assert stored(tmp_path / "code").find() == CODE
    assert (cache.hits, list(tmp_path.iterdir())) == (0, [tmp_path / "code"])


@pytest.mark.parametrize("beside", [b"of another version", None])
def test_the_cache_has_what_is_not_beside_the_manifest(
    beside: bytes | None, tmp_path: Path, cache: CompileCache
) -> None:
    if beside is not None:
        (tmp_path / "code").write_bytes(beside)
    cache.put(stored(tmp_path).sha256, CODE)
    assert stored(tmp_path / "code").find() == CODE


def test_other_code_in_the_cache_is_not_taken(tmp_path: Path, cache: CompileCache) -> None:
    cache.put(stored(tmp_path).sha256, b"planted")
    with pytest.raises(ArtifactError, match="code is missing, and the cache does not have it"):
        stored(tmp_path / "code").find()


@pytest.mark.compiles
def test_only_the_case_and_the_variant_that_are_called_are_built(
    project: Path, cache: CompileCache, capfd: pytest.CaptureFixture[str]
) -> None:
    artifact = load_artifact(project / "generated" / "small.artifacts" / "cpu.json")
    best = best_variant("cpu").variant
    few, every = binaries_of(artifact, best)
    assert call(project, 5)
    assert capfd.readouterr().err == f"wavespec: building small for {best}, case 0 ...\n"
    assert cache.get(few.sha256) is not None and cache.get(every.sha256) is None
    assert call(project, 5) and call(project, 70)
    assert capfd.readouterr().err == f"wavespec: building small for {best} ...\n"
    others = {one.sha256 for case in artifact.members for one in case.binaries} - {few.sha256, every.sha256}
    assert not [sha256 for sha256 in others if cache.get(sha256) is not None]


def test_without_a_compiler_the_error_names_both_cures(project: Path, cache: CompileCache) -> None:
    script = """
import sys
for name in ("iree.compiler", "pydantic", "pydantic_core", "sympy", "yaml", "typer", "rich"):
    sys.modules[name] = None
import torch
from generated.small import small
from wavespec.runtime import ArtifactError
try:
    small(torch.ones(5, 8).half(), torch.ones(3, 8).half())
except ArtifactError as error:
    print(error)
"""
    paths = f"{project}:{ROOT}"
    command = [sys.executable, "-c", f"import sys; sys.path[:0] = {paths!r}.split(':')\n{script}"]
    result = subprocess.run(
        command, cwd=cache.directory.parent, check=True, timeout=120, capture_output=True, text=True
    )
    assert result.stdout == (
        f"small: cpu.case0.{best_variant('cpu').variant}.vmfb is missing, and the cache does not have it. "
        "pip install 'wavespec[compiler]' to have it built from small.wave.yaml, or 'wavespec-kernels', which has it.\n"
    )


def test_a_changed_spec_is_not_built(project: Path, tmp_path: Path, cache: CompileCache) -> None:
    spec = tmp_path / "small.wave.yaml"
    spec.write_text(WITH_CASE.replace("tile: 32, axis: 1", "tile: 16, axis: 1"))
    artifact = load_artifact(project / "generated" / "small.artifacts" / "cpu.json", spec)
    with pytest.raises(ArtifactError, match=r"small\.wave\.yaml changed since .*; run 'wavespec generate'"):
        _ = artifact.binaries[0].data


def edited(project: Path, tmp_path: Path, **fields: str) -> Binary:
    """The code of the CPU for all sizes, as a manifest has it that was written elsewhere."""
    artifact = load_artifact(project / "generated" / "small.artifacts" / "cpu.json")
    record = json.loads(manifest_text(artifact))
    del record["sha256"]
    for binary in record["binaries"]:
        binary.update(fields)
    text = json.dumps(record, sort_keys=True, separators=(",", ":"))
    (tmp_path / "cpu.json").write_text(json_text({**record, "sha256": hashlib.sha256(text.encode()).hexdigest()}))
    artifact = load_artifact(tmp_path / "cpu.json", project / "specs" / "small.wave.yaml")
    (binary,) = (one for one in artifact.binaries if one.label == best_variant("cpu").variant)
    return binary


@pytest.mark.compiles
def test_code_of_another_version_of_wavespec_is_not_run(project: Path, tmp_path: Path, cache: CompileCache) -> None:
    with pytest.raises(ArtifactError, match=r"this version of wavespec makes other code of small\.wave\.yaml"):
        _ = edited(project, tmp_path, sha256="0" * 64, mlir_sha256="0" * 64).data


@pytest.mark.compiles
def test_code_of_another_compiler_is_not_run(project: Path, tmp_path: Path, cache: CompileCache) -> None:
    with pytest.raises(ArtifactError, match="the compiler that is installed makes other machine code for"):
        _ = edited(project, tmp_path, sha256="0" * 64).data


@pytest.mark.parametrize("change", [{"variant": "x86_64_v9"}, {"place": PartPlace(7)}])
def test_a_part_that_the_spec_does_not_have_is_not_built(
    change: dict[str, Any], project: Path, cache: CompileCache
) -> None:
    artifact = load_artifact(
        project / "generated" / "small.artifacts" / "cpu.json", project / "specs" / "small.wave.yaml"
    )
    code = artifact.binaries[0].code
    assert isinstance(code, StoredCode) and code.recipe is not None
    with pytest.raises(ArtifactError, match="this version of wavespec makes other code"):
        replace(code, path=Path("nowhere"), recipe=replace(code.recipe, **change)).find()


def test_copies_of_a_binary_look_for_its_code_themselves(tmp_path: Path, cache: CompileCache) -> None:
    binary = Binary("x86_64", "vmfb", stored(tmp_path / "code"))
    (tmp_path / "code").write_bytes(CODE)
    assert replace(binary, label="other").data == CODE and binary.size == len(CODE)
