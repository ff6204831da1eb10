"""Attention kernels for CDNA in; a Markdown table of what a step of their loop consists of, by kind of instruction.

    python -m benchmarks.amd_attention > benchmarks/results/amd_attention.md

No GPU is needed: instructions are counted in the assembly that IREE writes, of the loop over whole tiles of keys.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from benchmarks.amd_figures import Code, loop, names, waves
from wavespec.pipeline import build_variant
from wavespec.schema import KernelSpec, load
from wavespec.schema.cases import case_for_sizes, cases_for_target
from wavespec.schema.families.load_family import load_family
from wavespec.targets.machine import Machine, machines

SPECS = Path(__file__).parent.parent / "specs"
PEER = 4.8
"""Instructions of other kinds for each MFMA in the peer's loop, f16, heads of 64: 309 beside 64."""
KINDS = {
    "MFMA": ("v_mfma",),
    "VALU": ("v_",),
    "LDS": ("ds_",),
    "memory": ("buffer_", "global_"),
    "waits": ("s_waitcnt", "s_nop", "s_barrier"),
    "scalar": ("s_",),
}
"""What opcodes begin with; the first that fits counts."""
HEAD = f"""# Attention on CDNA: what a step of the loop consists of

Written by `python -m benchmarks.amd_attention > benchmarks/results/amd_attention.md`; figures of code, not times.

Many queries, any number of keys: the loop over whole tiles of keys, per wave.  Others: instructions that are no MFMA,
for each MFMA; wave-lang, which has the least of the peers, has {PEER} in f16 with heads of 64, on gfx942.  MFMAs of
gfx950 are twice as deep, so that there are half as many for the same work.  Waits: `s_waitcnt`, `s_nop` and barriers.
Kept: scalar registers that lie in lanes of a vector register in front of and behind the loops.  No vector register is
spilled, nothing goes to scratch memory, and no scalar is moved so in the loop, or the script fails.

| kernel | head | machine | VGPR | waves | kept | LDS bytes | loop | {" | ".join(KINDS)} | others |
|---|---|---|---|---|---|---|---|{"---|" * len(KINDS)}---|"""


def attention_specs() -> dict[str, KernelSpec]:
    """By name: kernels of `specs/`, and attention in f16, which a peer has figures for."""
    masked = (one for one in load_family(SPECS / "attention_masked.wave.yaml").members if "_f16" not in one.name)
    return {
        "attention, f16": load_family(SPECS / "attention.wave.yaml").member("DTYPE=f16").spec,
        "attention": load(SPECS / "attention.wave.yaml"),
        "attention_gqa": load(SPECS / "attention_gqa.wave.yaml"),
        "attention_alibi": load(SPECS / "attention_alibi.wave.yaml"),
        **{member.name: member.spec for member in masked},
    }


def spec_for_head(spec: KernelSpec, target: str, head: int) -> KernelSpec:
    """The case of a spec for many queries and heads of that size."""
    sizes = dict.fromkeys(spec.dims, 1024) | {"D": head, "E": head}
    return case_for_sizes(cases_for_target(spec, target), sizes).spec


def compiled(spec: KernelSpec, machine: Machine) -> Code:
    """Compile; fails where a vector register is spilled, or a scalar one in the loop."""
    _, products = build_variant(spec, machine, intermediates=True)
    assembly = next(data.decode() for name, data in products.dumped.items() if name.endswith(".rocmasm"))
    notes = {name: int(value) for name, value in re.findall(r"^\s+\.(\w+):\s+(\d+)$", assembly, re.MULTILINE)}
    code = Code(notes, names(assembly), loop(assembly))
    assert not notes["vgpr_spill_count"] and not notes["private_segment_fixed_size"], f"{spec.name} spills"
    assert not any(name.startswith(("v_readlane", "v_writelane")) for name in code.loop), f"{spec.name} moves scalars"
    return code


def counted(code: Code) -> Mapping[str, int]:
    """The instructions of the loop by kind."""
    kinds = (next(kind for kind, starts in KINDS.items() if name.startswith(starts)) for name in code.loop)
    found = Counter(kinds)
    return {kind: found[kind] for kind in KINDS}


def others(counts: Mapping[str, int]) -> float:
    """Instructions of other kinds for each MFMA."""
    return (sum(counts.values()) - counts["MFMA"]) / counts["MFMA"]


def row(name: str, spec: KernelSpec, target: str, head: int) -> str:
    """One line of the table."""
    (machine,) = machines(target)
    code = compiled(spec_for_head(spec, target, head), machine)
    counts, registers = counted(code), code.notes["vgpr_count"]
    kept, shared = code.notes["sgpr_spill_count"], code.notes["group_segment_fixed_size"]
    figures = (registers, waves(registers), kept, shared, len(code.loop), *counts.values())
    return f"| {' | '.join(map(str, (name, head, target, *figures)))} | {others(counts):.2f} |"


def main() -> None:
    """Print the table."""
    print(HEAD)
    for name, spec in attention_specs().items():
        for head in (64, 128):
            for target in ("gfx942", "gfx950"):
                print(row(name, spec, target, head), flush=True)


if __name__ == "__main__":
    main()
