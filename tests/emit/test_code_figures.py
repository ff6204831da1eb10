"""Figures of machine code: what the notes of code objects say, and instructions of PTX by kind."""

from __future__ import annotations

import pytest

from tests.lower.gemms import Gemm
from wavespec.emit.code_figures import ptx_figures
from wavespec.pipeline import build_variant
from wavespec.targets.machine import machines

PTX = """
.visible .entry k(
	.param .u64 k_param_0
)
{
	.local .align 8 .b8 	__local_depot0[24];
	.reg .b32 	%r<3>;
	ld.param.b32 	%r1, [k_param_0];
$L__BB0_1:
	@%p1 bra 	$L__BB0_1;
	@!%p1 bra.uni 	$L__BB0_1;
	// begin inline asm
	cp.async.cg.shared.global [%r1], [%rd1], 16;
	// end inline asm
	cp.async.commit_group;
wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16 {%r1}, 1;
	ld.shared.v4.b32 	{%r1}, [%r2];
	st.global.b32 	[%rd1], %r1;
	bar.sync 	0;
	ret;
}
"""


def test_instructions_of_ptx_are_counted_by_kind() -> None:
    assert ptx_figures(PTX) == {
        "instructions": 10,
        "products": 1,
        "global": 2,
        "shared": 1,
        "barriers": 1,
        "local_bytes": 24,
    }


@pytest.mark.compiles
def test_figures_of_a_code_object_are_those_of_its_notes() -> None:
    (machine,) = machines("gfx942")
    spec = Gemm(tile=(128, 128, 32), wave=(64, 64)).spec
    artifact, compiled = build_variant(spec, machine, intermediates=True)
    figures = dict(artifact.binaries[0].figures)
    assembly = next(data.decode() for name, data in compiled.dumped.items() if name.endswith(".rocmasm"))
    for name, note in {
        "registers": ".vgpr_count",
        "matrix_registers": ".agpr_count",
        "scalar_registers": ".sgpr_count",
        "spilled_registers": ".vgpr_spill_count",
        "shared_bytes": ".group_segment_fixed_size",
    }.items():
        assert (
            f"{note}:" in assembly.replace(" ", "") and int(assembly.split(f"{note}:")[1].split()[0]) == figures[name]
        )
    assert figures["registers"] > 0 and figures["code_bytes"] > 1000


@pytest.mark.compiles
def test_code_for_cpus_has_its_bytes() -> None:
    artifact, _ = build_variant(Gemm().spec, machines("cpu")[-1])
    (binary,) = artifact.binaries
    assert 0 < dict(binary.figures)["code_bytes"] < binary.size
