"""Kernels that wait for the launch in front of them: before they touch memory, after what needs none."""

from __future__ import annotations

import re

import pytest

from wavespec.emit.launch_overlap import WAIT, with_launch_overlap

_BARRIERS = """\
.visible .entry k(
	.param .u64 k_param_0
)
{
	.reg .pred 	%p<3>;
	.reg .b32 	%r<9>;

	mov.u32 	%r1, %tid.x;
	setp.ne.b32 	%p1, %r1, 0;
	@%p1 bra 	$L__BB0_2;
	mbarrier.init.shared.b64 	[%rd1], %r2;
	fence.mbarrier_init.release.cluster;
$L__BB0_2:
	bar.sync 	0;
	// begin inline asm
	shr.u32 %r4, %r1, 31; xor.b32 %r4, %r4, 983055;
	// end inline asm
	@%p2 bra 	$L__BB0_4;
	ld.global.b32 	%r5, [%rd2];
$L__BB0_4:
	ret;
}
"""


def _split(ptx: str) -> tuple[list[str], list[str]]:
    lines = ptx.splitlines()
    at = lines.index(WAIT)
    return lines[:at], lines[at + 1 :]


def test_barriers_are_set_up_before_the_wait() -> None:
    before, after = _split(with_launch_overlap(_BARRIERS))
    assert before[-1] == "\t// end inline asm" and "\tbar.sync \t0;" in before
    assert after[:2] == ["\t@%p2 bra \t$L__BB0_4;", "\tld.global.b32 \t%r5, [%rd2];"]


def test_lanes_that_jump_over_memory_wait_too() -> None:
    """Or a launch all of whose lanes do would end before the one in front of it, and the next one with it."""
    before, _ = _split(with_launch_overlap(_BARRIERS.replace("mbarrier.init.shared.b64", "atom.global.add.u32")))
    assert before[-1] == "\tsetp.ne.b32 \t%p1, %r1, 0;"


@pytest.mark.parametrize(
    "access",
    [
        "ld.global.b32 \t%r3, [%rd3];",
        "@%p1 st.global.b32 \t[%rd3], %r1;",
        "mov.b32 \t%r4, 0; cp.async.cg.shared.global [%rd1], [%rd3], 16;",
        "red.global.add.f32 \t[%rd3], %f1;",
        "bra.uni \t$L__BB0_4;",
        "ret;",
    ],
)
def test_what_others_see_is_behind_the_wait(access: str) -> None:
    ptx = _BARRIERS.replace("\tsetp.ne.b32 \t%p1, %r1, 0;\n", f"\t{access}\n")
    before, after = _split(with_launch_overlap(ptx))
    assert before[-1] == "\tmov.u32 \t%r1, %tid.x;" and after[0] == f"\t{access}"


def test_loads_say_nothing_of_memory_that_stays_as_it_is() -> None:
    """The assembler moves such loads over the wait, but not out of loops."""
    constant = _BARRIERS.replace("ld.global.b32", "ld.global.nc.b32")
    assert with_launch_overlap(constant) == with_launch_overlap(_BARRIERS)
    loop = "$L__BB0_3:\n\tld.global.nc.b32 \t%r6, [%rd2];\n\t@%p2 bra \t$L__BB0_3;\n$L__BB0_4:\n\tret;"
    _, after = _split(with_launch_overlap(constant.replace("$L__BB0_4:\n\tret;", loop)))
    assert [line.split()[0] for line in after if "ld.global" in line] == ["ld.global.b32", "ld.global.nc.b32"]


def test_loops_do_not_wait_again() -> None:
    before, after = _split(with_launch_overlap(_BARRIERS.replace("\tsetp.ne", "$L__BB0_9:\n\tsetp.ne")))
    assert before[-1] == "\tmov.u32 \t%r1, %tid.x;" and after[0] == "$L__BB0_9:"


def test_a_text_without_a_kernel_is_refused() -> None:
    with pytest.raises(ValueError, match="no kernel"):
        with_launch_overlap(re.sub(r"\.entry", ".func", _BARRIERS))
