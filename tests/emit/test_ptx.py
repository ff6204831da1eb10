"""Tensor maps in PTX: pointers that IREE loads become addresses of parameters that are passed by value."""

from __future__ import annotations

import re
from functools import cache

import pytest

from tests.emit.hopper_kernels import interface_of, specialised_gemm
from wavespec.emit.compiler import compile_executable
from wavespec.emit.ptx import descriptors_by_value
from wavespec.emit.ptxas import assemble, find_ptxas
from wavespec.emit.targets import module_to_binaries, thread_to_module
from wavespec.targets import machines

PTXAS = find_ptxas()
MAPS = (3, 4, 5)
"""Parameters of the kernel below after a, b and c."""

# What LLVM makes of pointers of the address space of globals, of a guarded load, and of an address that is loaded twice.
POINTERS = """\
.version 8.3
.target sm_90a
.address_size 64
.visible .entry copy(
	.param .u64 .ptr .global .align 16 copy_param_0,
	.param .u64 .ptr .align 16 copy_param_1,
	.param .u64 copy_param_10
)
{
	.reg .pred 	%p<2>;
	.reg .b32 	%r<3>;
	.reg .b64 	%rd<9>;
	mov.u32 	%r1, %tid.x;
	setp.ne.b32 	%p1, %r1, 0;
	ld.param::entry.b64 	%rd1, [copy_param_0];
	cvta.global.u64 	%rd2, %rd1;
	prefetch.tensormap 	[%rd2];
	@%p1 ld.param.u64 	%rd3, [copy_param_1];
	@%p1 prefetch.tensormap 	[%rd3];
	ld.param.b64 	%rd4, [copy_param_1];
	prefetch.tensormap 	[%rd4];
	ld.param.u64 	%rd5, [copy_param_10];
	cvta.to.global.u64 	%rd6, %rd5;
	st.global.b32 	[%rd6], %r1;
	ret;
}
"""


@cache
def pointers_of_iree() -> str:
    """PTX of a kernel with three bulk copies, as the compiler wrote it."""
    module = thread_to_module(specialised_gemm(), machines("sm_90")[0], interface_of(specialised_gemm()))
    (text,) = (data for name, data in compile_executable(module.text).dumped.items() if name.endswith(".ptx"))
    return text.decode()


def assembles(ptx: str) -> None:
    if PTXAS is None:
        pytest.skip("ptxas, of the CUDA toolkit, is not installed")
    assembled = assemble(ptx.encode(), "sm_90a", PTXAS)
    assert assembled.warnings == () and assembled.spill_bytes == 0, str(assembled)


@pytest.mark.compiles
def test_a_compiled_kernel_takes_its_maps_by_value() -> None:
    before, after = pointers_of_iree(), descriptors_by_value(pointers_of_iree(), "gemm", MAPS)
    for ordinal in MAPS:
        assert after.count(f".param .align 64 .b8 gemm_param_{ordinal}[128]") == 1
        assert f"[gemm_param_{ordinal}]" in before and f"[gemm_param_{ordinal}]" not in after
        announced = after.index(f"mov.b64 \t%tensormap{MAPS.index(ordinal)}, gemm_param_{ordinal};")
        assert announced < after.index("mbarrier.init"), "by the lane that sets up barriers"
    unchanged = [line for line in before.splitlines() if not re.search(r"gemm_param_[345]", line)]
    assert [line for line in after.splitlines() if line in set(unchanged)] == unchanged
    assembles(after)


@pytest.mark.compiles
def test_it_is_done_for_every_kernel_with_maps() -> None:
    module = thread_to_module(specialised_gemm(), machines("sm_90")[0], interface_of(specialised_gemm()))
    binaries, compiled = module_to_binaries(module)
    assert binaries[0].data.decode() == descriptors_by_value(pointers_of_iree(), "gemm", MAPS)
    assert binaries[0].data in compiled.dumped.values(), "what is shown is what runs"


def test_other_ways_to_load_a_pointer() -> None:
    after = descriptors_by_value(POINTERS, "copy", (0, 1))
    lines = [line.strip().replace("\t", "") for line in after.splitlines()]
    assert "mov.b64 %rd1, copy_param_0;" in lines and "cvta.param.u64 %rd1, %rd1;" in lines
    assert "mov.b64 %rd2, %rd1;" in lines, "an address of a parameter is none of a global"
    assert "@%p1 mov.b64 %rd3, copy_param_1;" in lines and "@%p1 cvta.param.u64 %rd3, %rd3;" in lines
    assert "mov.b64 %rd4, copy_param_1;" in lines
    # A longer name, and a pointer that is none to a map, stay as they are.
    assert "ld.param.u64 %rd5, [copy_param_10];" in lines and "cvta.to.global.u64 %rd6, %rd5;" in lines
    assembles(after)


def test_without_maps_nothing_changes() -> None:
    assert descriptors_by_value(POINTERS, "copy", ()) == POINTERS


@pytest.mark.parametrize(
    ("ptx", "ordinal"),
    [
        (POINTERS, 2),
        (POINTERS.replace("ld.param.b64 	%rd4, [copy_param_1]", "ld.param.b32 	%r2, [copy_param_1]"), 1),
        (POINTERS.replace("[copy_param_1]", "[copy_param_1+4]"), 1),
    ],
    ids=["no such parameter", "no pointer", "no whole pointer"],
)
def test_unknown_uses_are_no_silent_mistake(ptx: str, ordinal: int) -> None:
    with pytest.raises(ValueError, match=f"does not use the parameter copy_param_{ordinal} as a pointer"):
        descriptors_by_value(ptx, "copy", (ordinal,))
