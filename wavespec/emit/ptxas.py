"""PTX in; a cubin, and what NVIDIA's assembler has to say about it, out.  Only where the CUDA toolkit is installed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

from wavespec.emit.compiler import CompilerFailure
from wavespec.runtime.artifact import ArtifactCase, KernelArtifact
from wavespec.runtime.code import Binary

# Notes on lost performance, such as `(C7510) ... wgmma.mma_async instructions are serialized`, count as warnings.
_WARNING = re.compile(r"ptxas warning\s*: (?P<warning>.*)|ptxas info\s*: (?P<note>\(C\d+\).*)")


@dataclass(frozen=True, slots=True)
class Assembled:
    """Machine code of one kernel, and its use of the machine: registers per thread, bytes of spills per thread and
    of static shared memory per workgroup."""

    cubin: bytes
    registers: int
    spill_bytes: int
    shared_bytes: int
    warnings: tuple[str, ...]

    def __str__(self) -> str:
        lines = (
            f"{self.registers} registers, {self.spill_bytes} bytes spilled, "
            f"{self.shared_bytes} bytes of static shared memory, {len(self.cubin)} bytes of code",
            *self.warnings,
        )
        return "\n".join(lines)


def find_ptxas() -> Path | None:
    """The assembler: on the PATH, or in the toolkit that CUDA_HOME names."""
    home = os.environ.get("CUDA_HOME")
    found = shutil.which("ptxas") or (shutil.which("ptxas", path=str(Path(home) / "bin")) if home else None)
    return Path(found) if found else None


def ptxas_version(ptxas: Path) -> str:
    """What the assembler says of itself, for cache keys."""
    return subprocess.run([str(ptxas), "--version"], capture_output=True, text=True, check=True).stdout


def with_cubins(artifact: KernelArtifact, ptxas: Path) -> KernelArtifact:
    """The same with a cubin, ``<variant>_code``, before the PTX of every case: it loads in 0.5 ms instead of 150.

    A driver that is older than the assembler takes the PTX.
    """
    binaries = tuple(
        one
        for binary in artifact.binaries
        for one in (*((_cubin(binary, artifact.architecture, ptxas),) if binary.format == "ptx" else ()), binary)
    )
    cases = tuple(ArtifactCase(case.conditions, with_cubins(case.kernel, ptxas)) for case in artifact.cases)
    steps = tuple(with_cubins(step, ptxas) for step in artifact.steps)
    return replace(artifact, binaries=binaries, cases=cases, steps=steps)


def _cubin(binary: Binary, architecture: str, ptxas: Path) -> Binary:
    return Binary(f"{binary.label}_code", "cubin", assemble(binary.data, architecture, ptxas).cubin, binary.requires)


def assemble(ptx: bytes, architecture: str, ptxas: Path) -> Assembled:
    """Assemble one kernel for an architecture, such as ``sm_90a``.

    Raises:
        CompilerFailure: PTX that the assembler refuses.
    """
    with tempfile.TemporaryDirectory() as directory:
        source, cubin = Path(directory, "kernel.ptx"), Path(directory, "kernel.cubin")
        source.write_bytes(ptx)
        command = [str(ptxas), "-v", f"-arch={architecture}", str(source), "-o", str(cubin)]
        run = subprocess.run(command, capture_output=True, text=True, check=False)
        report = run.stderr + run.stdout
        if run.returncode:
            lines = [line.replace(f"{source}", "kernel.ptx") for line in report.splitlines() if line.strip()]
            raise CompilerFailure(None, "ptxas refused the generated PTX.", notes=lines[:5] or ["It gave no reason."])
        return Assembled(
            cubin.read_bytes(),
            registers=_number(r"Used (\d+) registers", report),
            spill_bytes=_number(r"(\d+) bytes spill stores", report) + _number(r"(\d+) bytes spill loads", report),
            shared_bytes=_number(r"(\d+) bytes smem", report),
            warnings=tuple(dict.fromkeys(found["warning"] or found["note"] for found in _WARNING.finditer(report))),
        )


def _number(pattern: str, report: str) -> int:
    """The largest of the numbers; 0 where ptxas has nothing of the kind to report."""
    return max(map(int, re.findall(pattern, report)), default=0)
