"""GEMM kernels for CDNA in; Markdown tables of what the compiler made of them, beside a peer's figures, out.

    python -m benchmarks.amd_figures > benchmarks/results/amd.md

No GPU is needed: registers, memory and the instructions of the loop are counted in the assembly that IREE
writes.  Whether the code computes the right thing is the business of `tests/amd`.
"""

from __future__ import annotations

import gc
import re
import time
from dataclasses import dataclass

from benchmarks.peer_gemms import F16_16, F16_32, PEER_GEMMS, PeerGemm
from wavespec.pipeline import build_variant, emit, lower
from wavespec.schema import KernelSpec, loads
from wavespec.targets.machine import Machine, machines

SPEC = """
apiVersion: wavespec/v1
kind: Kernel
name: gemm
dims: {{M: {{{m}}}, N: {{{n}}}, K: {{{k}}}}}
params: {{BLOCK_M: {tile[0]}, BLOCK_N: {tile[1]}, BLOCK_K: {tile[2]}}}
tensors:
  a: {{shape: [M, K], dtype: {dtype}, space: shared}}
  b: {{shape: [N, K], dtype: {dtype}, space: shared}}
  c: {{shape: [M, N], dtype: {acc}, role: output}}
constraints:
  - {{workgroup: M, tile: BLOCK_M, axis: 0}}
  - {{workgroup: N, tile: BLOCK_N, axis: 1}}
  - {{tiling: K, tile: BLOCK_K}}
  - {{wave: M, tile: BLOCK_M / {waves[0]}}}
  - {{wave: N, tile: BLOCK_N / {waves[1]}}}
  - {{hardware: {{mma: {mma}}}}}
graph:
  - zero: {{register: [M, N], dtype: {acc}, value: 0}}
  - k_loop:
      iterate: K
      carry: {{acc: zero}}
      body:
        - a_tile: {{read: a}}
        - b_tile: {{read: b}}
        - acc: {{mma: [a_tile, b_tile, acc]}}
  - {{write: k_loop.acc, to: c}}
schedule: {{stages: 2, auto: prefetch}}
"""
ANY = ("", "", "")
PROMISED = ("", "", "multiple_of: 16")
FIXED = ("value: 4096", "value: 4096", "value: 4096")
REGISTERS = 512
"""Vector registers of a lane that the waves of a SIMD share."""
_TRIES = 20


@dataclass(frozen=True, slots=True)
class Case:
    """One row of the table."""

    target: str = "gfx942"
    dtype: str = "f16"
    mma: str = "auto"
    tile: tuple[int, int, int] = (128, 128, 32)
    waves: tuple[int, int] = (2, 2)
    sizes: tuple[str, str, str] = PROMISED


CASES = (
    Case(mma=F16_16, sizes=FIXED),
    Case(mma=F16_16),
    Case(mma=F16_16, sizes=ANY),
    Case(mma=F16_32),
    Case(mma=F16_16, tile=(128, 256, 64), waves=(2, 4)),
    Case(dtype="bf16"),
    Case(dtype="i8", tile=(128, 128, 64)),
    Case(dtype="f32", tile=(128, 128, 16)),
    Case(dtype="f32", tile=(128, 128, 16), sizes=ANY),
    Case("gfx950"),
    Case("gfx950", tile=(128, 128, 64)),
    Case("gfx950", "bf16", tile=(128, 128, 64)),
    Case("gfx950", "i8", tile=(128, 128, 64)),
    Case("gfx950", "f32"),
)


HEAD = """# GEMM on CDNA: what the code consists of

Written by `python -m benchmarks.amd_figures > benchmarks/results/amd.md`; figures of code, not times.

C[M, N] = A[M, K] · B[N, K]ᵀ.  Spills and scratch are 0 everywhere, or the script fails.

## Eight cases that a peer has figures for

f16 to f32, 4096 x 4096 x 4096, gfx942; `benchmarks/peer_gemms.py` has the specs.  Each cell: ours, then in brackets
the better of the peer's two versions (wave-lang 3.9.1 and its main branch of 2026-04-27).  Waves: on each SIMD, as far
as registers limit them.  Loop: all instructions, of them MFMA / other vector / waits; both loops do the same MFMAs.
Barriers: in the whole kernel.  Stores: of C by each lane; the peer's are 4 bytes wide.  MLIR: milliseconds from YAML to
MLIR, best of 20 in a warm process, of CPU time (the peer's: its passes and emission, on an idle machine).

![our part of the peer's figures](amd.svg)

| case | VGPR | waves | LDS bytes | loop | barriers | loads | stores | MLIR |
|---|---|---|---|---|---|---|---|---|"""

OTHERS = """
## Other sizes, types and gfx950

Prefetching.  Sizes: "open" to the call with K promised a multiple of 16, "any", or fixed to 4096.  Loop: instructions
(MFMA / other vector / scalar / waits).  Steps: of K in the loop.  Loads: in the loop, of them copies into LDS.  Stores:
of C, in the whole kernel.

| target | tile, waves | instruction | sizes | VGPR | SGPR | LDS bytes | loop | steps | loads | copies | stores |
|---|---|---|---|---|---|---|---|---|---|---|---|"""


def main() -> None:
    """Print the tables."""
    print(HEAD)
    for case in PEER_GEMMS:
        print(peer_row(case))
    print(OTHERS)
    for case in CASES:
        print(row(case))


@dataclass(frozen=True, slots=True)
class Code:
    """What was compiled: the notes of the code object, the opcodes of all of it and of its main loop."""

    notes: dict[str, int]
    every: list[str]
    loop: list[str]


def compiled(spec: KernelSpec, machine: Machine) -> Code:
    """Compile; fails where registers are spilled."""
    _, products = build_variant(spec, machine, intermediates=True)
    assembly = next(data.decode() for name, data in products.dumped.items() if name.endswith(".rocmasm"))
    notes = {name: int(value) for name, value in re.findall(r"^\s+\.(\w+):\s+(\d+)$", assembly, re.MULTILINE)}
    lost = [notes[name] for name in ("vgpr_spill_count", "sgpr_spill_count", "private_segment_fixed_size")]
    assert not any(lost), f"{spec.name} spills: {lost}"
    return Code(notes, names(assembly), loop(assembly))


def peer_row(case: PeerGemm) -> str:
    """One line of the first table."""
    (machine,) = machines("gfx942")
    code, peer = compiled(case.spec(), machine), case.figures
    matrix, vector, _, waits = kinds(code.loop)
    registers = code.notes["vgpr_count"]
    ours = (
        registers,
        waves(registers),
        code.notes["group_segment_fixed_size"],
        f"{len(code.loop)} ({matrix}/{vector}/{waits})",
        code.every.count("s_barrier"),
    )
    theirs = ("-",) * len(ours)
    if peer is not None:
        assert peer.matrix == matrix, f"{case.name} does {matrix} MFMAs, the peer {peer.matrix}"
        counts = f"{peer.loop} ({peer.matrix}/{peer.vector}/{peer.waits})"
        theirs = (peer.registers, waves(peer.registers), peer.shared_bytes, counts, peer.barriers)
    cells = [f"{mine} [{other}]" for mine, other in zip(ours, theirs, strict=True)]
    accesses = [tally(code.loop, "buffer_load_"), tally(code.every, "buffer_store_")]
    milliseconds = f"{to_mlir_seconds(case, machine) * 1e3:.0f} [{case.seconds * 1e3:.0f}]"
    return f"| {' | '.join([case.name, *cells, *accesses, milliseconds])} |"


def waves(registers: int) -> int:
    """Waves on one SIMD, at most 8; registers are handed out in eights."""
    return min(8, REGISTERS // (-(-registers // 8) * 8))


def to_mlir_seconds(case: PeerGemm, machine: Machine) -> float:
    """The best of some tries, without the collector of garbage."""
    best = float("inf")
    gc.disable()
    for _ in range(_TRIES):
        start = time.process_time()
        emit(case.spec(), machine)
        best = min(best, time.process_time() - start)
    gc.enable()
    return best


def row(case: Case) -> str:
    """One line of the second table."""
    text = SPEC.format(
        m=case.sizes[0], n=case.sizes[1], k=case.sizes[2], tile=case.tile, waves=case.waves, dtype=case.dtype,
        acc="i32" if case.dtype == "i8" else "f32", mma=case.mma,
    )  # fmt: skip
    (machine,) = machines(case.target)
    code, kernel = compiled(loads(text), machine), lower(loads(text), machine)
    step = next(op["step"] for op in kernel.walk() if op.name == "for")
    copies = sum(op.name == "copy_async" for loop in kernel.body if loop.name == "for" for op in loop.walk())
    used = next(name for name in code.loop if name.startswith("v_mfma")) if code.loop else "unrolled"
    counts = f"{len(code.loop)} ({', '.join(map(str, kinds(code.loop)))})".replace(", ", "/")
    sizes = "any" if case.sizes == ANY else "open" if case.sizes == PROMISED else "4096"
    split = f"{'x'.join(map(str, case.tile))}, {case.waves[0]}x{case.waves[1]}"
    registers = [code.notes[name] for name in ("vgpr_count", "sgpr_count", "group_segment_fixed_size")]
    accesses = [tally(code.loop, "buffer_load_"), copies, tally(code.every, "buffer_store_")]
    cells = [case.target, split, f"`{used}`", sizes, *registers, counts, step // case.tile[2], *accesses]
    return f"| {' | '.join(map(str, cells))} |"


def names(assembly: str) -> list[str]:
    """The opcodes, in order; labels end in a colon."""
    lines = (line.split(";")[0].strip() for line in assembly.splitlines())
    code = (line for line in lines if re.match(r"[a-z]\w+(\s|$)|\.L\w+:", line))
    return [line.split()[0] for line in code]


def loop(assembly: str) -> list[str]:
    """Opcodes of the loop with the most matrix instructions."""
    every: list[str] = []
    labels: dict[str, int] = {}
    best: list[str] = []
    for line in assembly.splitlines():
        line = line.split(";")[0].strip()
        if found := re.match(r"(\.L\w+):", line):
            labels[found[1]] = len(every)
        elif re.match(r"[a-z]\w+(\s|$)", line):
            every.append(line.split()[0])
            target = line.split()[-1]
            if "branch" in every[-1] and target in labels:
                best = max(best, every[labels[target] :], key=lambda body: sum("mfma" in name for name in body))
    return best


def kinds(body: list[str]) -> tuple[int, int, int, int]:
    """Instructions by unit: matrix, other vector, scalar, waits."""
    matrix = sum(name.startswith("v_mfma") for name in body)
    vector = sum(name.startswith("v_") for name in body) - matrix
    waits = sum(name.startswith("s_waitcnt") for name in body)
    control = ("s_barrier", "s_nop", "s_cbranch", "s_branch")
    scalar = sum(name.startswith("s_") and not name.startswith(control) for name in body) - waits
    return matrix, vector, scalar, waits


def tally(body: list[str], start: str) -> str:
    """Such as ``4 dwordx4``."""
    widths = [name.removeprefix(start) for name in body if name.startswith(start)]
    return ", ".join(f"{widths.count(width)} {width}" for width in dict.fromkeys(widths))


if __name__ == "__main__":
    main()
