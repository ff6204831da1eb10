"""GEMM kernels for CDNA in; a Markdown table of what the compiler made of them, beside a peer's figures, out.

    python benchmarks/amd_figures.py > benchmarks/results/amd.md

No GPU is needed: registers, memory and the instructions of the loop are counted in the assembly that IREE
writes.  Whether the code computes the right thing is the business of `tests/amd`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from wavespec.pipeline import build_variant
from wavespec.schema import loads
from wavespec.targets.machine import machines

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
"""
ANY = ("", "", "")
PROMISED = ("", "", "multiple_of: 16")
FIXED = ("value: 4096", "value: 4096", "value: 4096")
F16_16, F16_32 = "f32_16x16x16_f16", "f32_32x32x8_f16"

# The peer's figures for the same kernel at fixed sizes of 4096, gfx942, compiled on such a machine:
# wave-lang 3.9.1 and its main branch of 2026-04-27, the better of the two; vector registers, bytes of LDS,
# instructions of the loop (MFMA / other vector / waits) and stores of C.
PEER = {
    ("64x64x32", F16_16): "52 VGPR, 9216 B, 97 (32/4/18) for two steps, 16 dword",
    ("128x128x32", F16_16): "120 VGPR, 18432 B, 128 (64/8/16) for two steps, 64 dword; "
    "prefetching: 128 VGPR, 69 (32/6/7)",
    ("128x128x64", F16_16): "126 VGPR, 34816 B, 140 (64/14/17), 64 dword",
    ("128x256x64", F16_16): "192 VGPR, 52224 B, 135 (64/10/9), 64 dword",
}
PEER_ANY = {"f16": "32 `global_load_ushort` a step"}


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
    Case(mma=F16_16, tile=(64, 64, 32)),
    Case(mma=F16_16),
    Case(mma=F16_16, sizes=FIXED),
    Case(mma=F16_16, sizes=ANY),
    Case(mma=F16_32),
    Case(mma=F16_16, tile=(128, 128, 64)),
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

Written by `python benchmarks/amd_figures.py > benchmarks/results/amd.md`; figures of code, not times.

C[M, N] = A[M, K] · B[N, K]ᵀ.  Sizes: "open" to the call with K promised a multiple of 16, "any", or fixed.
Spills and scratch are 0 everywhere, or the script fails.  Loop: instructions of one step of K (MFMA / other
vector / scalar / waits).  Stores: of C, in the whole kernel.

| target | tile, waves | instruction | sizes | VGPR | SGPR | LDS bytes | loop | loads | stores | peer |
|---|---|---|---|---|---|---|---|---|---|---|"""


def main() -> None:
    """Print the table."""
    print(HEAD)
    for case in CASES:
        print(row(case))


def row(case: Case) -> str:
    """One line of the table."""
    text = SPEC.format(
        m=case.sizes[0], n=case.sizes[1], k=case.sizes[2], tile=case.tile, waves=case.waves, dtype=case.dtype,
        acc="i32" if case.dtype == "i8" else "f32", mma=case.mma,
    )  # fmt: skip
    (machine,) = machines(case.target)
    _, compiled = build_variant(loads(text), machine, intermediates=True)
    assembly = next(data.decode() for name, data in compiled.dumped.items() if name.endswith(".rocmasm"))
    notes = {name: int(value) for name, value in re.findall(r"^\s+\.(\w+):\s+(\d+)$", assembly, re.MULTILINE)}
    lost = [notes[name] for name in ("vgpr_spill_count", "sgpr_spill_count", "private_segment_fixed_size")]
    assert not any(lost), f"{case} spills: {lost}"
    body = loop(assembly)
    used = next(name for name in body if name.startswith("v_mfma")) if body else "unrolled"
    counts = f"{len(body)} ({', '.join(map(str, kinds(body)))})".replace(", ", "/")
    sizes = {ANY: "any", PROMISED: "open", FIXED: "4096"}[case.sizes]
    tile = "x".join(map(str, case.tile))
    peer = PEER.get((tile, case.mma), "") if case.sizes != ANY else PEER_ANY.get(case.dtype, "")
    steps = body.count("s_barrier") // 2
    counts += f" for {steps} steps" if steps > 1 else ""
    split = f"{tile}, {case.waves[0]}x{case.waves[1]}"
    registers = [notes[name] for name in ("vgpr_count", "sgpr_count", "group_segment_fixed_size")]
    accesses = [tally(body, "buffer_load_"), tally(names(assembly), "buffer_store_")]
    cells = [case.target, split, f"`{used}`", sizes, *registers, counts, *accesses, peer]
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
