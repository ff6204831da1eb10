"""NVIDIA's assembler: where it is found, what is read from its report, and that kernels keep their PTX."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from tests.lower.gemms import Gemm
from tests.runtime.standins import gemm_interface
from wavespec.assembled_figures import with_assembled_figures
from wavespec.cache import CompileCache
from wavespec.emit.compiler import CompilerFailure
from wavespec.emit.ptxas import assemble, find_ptxas, ptxas_version, with_cubins
from wavespec.pipeline import build, compile
from wavespec.runtime import ArtifactCase, Assumption, Binary
from wavespec.runtime.manifest import save_artifact

SERIALIZED = "(C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized in function 'gemm'"
REPORT = f"""\
ptxas info    : 0 bytes gmem
ptxas info    : {SERIALIZED}
ptxas info    : Compiling entry function 'gemm' for 'sm_90a'
ptxas info    : Function properties for gemm
    16 bytes stack frame, 24 bytes spill stores, 40 bytes spill loads
ptxas info    : Used 168 registers, used 3 barriers, 1024 bytes smem, 400 bytes cmem[0]
ptxas warning : Value of threads per SM for entry gemm is out of range.
"""
KERNEL = ".version 8.3\n.target sm_90a\n.address_size 64\n.visible .entry gemm()\n{\n\tret;\n}\n"


@pytest.fixture
def standin(tmp_path: Path) -> Path:
    """An assembler that says what it was told, and writes its own arguments as the machine code."""
    path = tmp_path / "bin" / "ptxas"
    path.parent.mkdir()
    path.write_text(
        '#!/bin/sh\nif [ "$1" = --version ]; then echo release 1; exit; fi\nif grep -q nonsense "$3"; then echo "ptxas $3, line 1; fatal : Parsing error" >&2; exit 255; fi\n'
        f'cat >&2 <<"END"\n{REPORT}END\nprintf %s "$1 $2" >"$5"\n'
    )
    path.chmod(0o755)
    return path


def test_report(standin: Path) -> None:
    assembled = assemble(b"", "sm_90a", standin)
    assert (assembled.registers, assembled.spill_bytes, assembled.shared_bytes) == (168, 64, 1024)
    assert assembled.warnings == (SERIALIZED, "Value of threads per SM for entry gemm is out of range.")
    assert assembled.cubin == b"-v -arch=sm_90a"
    assert str(assembled).splitlines() == [
        "168 registers, 64 bytes spilled, 1024 bytes of static shared memory, 15 bytes of code",
        *assembled.warnings,
    ]


def test_refusal_names_no_temporary_file(standin: Path) -> None:
    with pytest.raises(CompilerFailure) as failure:
        assemble(b"nonsense", "sm_90a", standin)
    assert "note: ptxas kernel.ptx, line 1; fatal : Parsing error" in str(failure.value)


def test_it_is_found_on_the_path_or_in_the_toolkit(standin: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CUDA_HOME", raising=False)
    assert find_ptxas() is None
    monkeypatch.setenv("CUDA_HOME", str(standin.parents[1]))
    assert find_ptxas() == standin
    monkeypatch.setenv("PATH", str(standin.parent))
    monkeypatch.setenv("CUDA_HOME", "elsewhere")
    assert find_ptxas() == standin


def test_cubins_come_before_the_ptx_of_every_case(standin: Path) -> None:
    ptx = Binary("sm_90", "ptx", KERNEL.encode())
    every = replace(gemm_interface(), backend="cuda", architecture="sm_90a", binaries=(ptx,))
    case = ArtifactCase((Assumption("M <= 64", ("le", "M", 64)),), every)
    artifact = with_cubins(replace(every, cases=(case,)), standin)
    for member in artifact.members:
        cubin, kept = member.binaries
        assert (cubin.label, cubin.format, cubin.data) == ("sm_90_code", "cubin", b"-v -arch=sm_90a")
        assert kept == ptx
    assert len(artifact.members) == 2


def test_figures_of_code_that_is_known_stay_and_others_are_asked_for(standin: Path, tmp_path: Path) -> None:
    ptx = Binary("sm_90", "ptx", KERNEL.encode(), figures=(("instructions", 1),))
    kernel = replace(gemm_interface(), backend="cuda", target="sm_90", architecture="sm_90a", binaries=(ptx,))
    other = replace(kernel, binaries=(replace(ptx, code=KERNEL.encode() + b"\n"),))
    case = ArtifactCase((Assumption("M <= 64", ("le", "M", 64)),), other)
    manifest = save_artifact(replace(kernel, binaries=(replace(ptx, figures=(("registers", 7),)),)), tmp_path)[-1]

    def figures(ptxas: Path | None) -> list[dict[str, int]]:
        found = with_assembled_figures(replace(kernel, cases=(case,)), manifest, ptxas)
        return [dict(member.binaries[0].figures) for member in found.members]

    asked = {"instructions": 1, "registers": 168, "spilled_bytes": 64, "warnings": 2}
    assert figures(standin) == [asked, {"registers": 7}]
    assert figures(None) == [{"instructions": 1}, {"registers": 7}]


@pytest.mark.compiles
def test_kernels_of_this_process_have_cubins_and_generated_files_have_none(
    standin: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = Gemm(tile=(32, 64, 32), wave=(32, 32), dims=("", "", "multiple_of: 8")).spec
    cache = CompileCache(tmp_path / "cache")
    monkeypatch.setenv("PATH", str(standin.parent), prepend=os.pathsep)
    assert [one.format for one in compile(spec, "sm_90", cache=cache).artifact.binaries] == ["cubin", "ptx"]
    assert [one.format for one in build(spec, "sm_90", cache=cache).binaries] == ["ptx"]
    monkeypatch.setattr("wavespec.pipeline.find_ptxas", lambda: None)
    assert [one.format for one in compile(spec, "sm_90", cache=cache).artifact.binaries] == ["ptx"]


@pytest.mark.skipif(shutil.which("ptxas") is None, reason="ptxas, of the CUDA toolkit, is not on the PATH")
def test_the_assembler_itself() -> None:
    ptxas = find_ptxas()
    assert ptxas is not None and "release" in ptxas_version(ptxas)
    assembled = assemble(KERNEL.encode(), "sm_90a", ptxas)
    assert assembled.cubin.startswith(b"\x7fELF") and assembled.registers > 0
    assert (assembled.spill_bytes, assembled.shared_bytes, assembled.warnings) == (0, 0, ())
    with pytest.raises(CompilerFailure, match=r"kernel\.ptx, line 5"):
        assemble(KERNEL.replace("{", "{ nonsense;").encode(), "sm_90a", ptxas)
