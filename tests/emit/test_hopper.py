"""Emission of specialised waves, signals, bulk copies and the asynchronous matrix unit."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from tests.emit.hopper_kernels import interface_of, single_product, specialised_gemm
from tests.lower.hopper_gemms import TOGETHER, hopper_gemm, rounded
from wavespec.diagnostics import WavespecError
from wavespec.emit.targets import EmittedModule, module_to_binaries, thread_to_module
from wavespec.emit.thread_to_mlir import thread_to_mlir
from wavespec.ir.expr import const
from wavespec.ir.kernel import Kernel, Op, rewrite
from wavespec.ir.parser import parse_kernel
from wavespec.ir.printer import print_kernel
from wavespec.ir.thread_ops import BULK_COPY
from wavespec.ir.verifier import verify
from wavespec.pipeline import emit
from wavespec.runtime.artifact import TensorMap
from wavespec.targets import machines

NVIDIA = machines("sm_90")[0]
needs_ptxas = pytest.mark.skipif(shutil.which("ptxas") is None, reason="ptxas, of the CUDA toolkit, is not on the PATH")

PRODUCTS = {
    "wgmma_m64n16k16_bf16": ("bf16", 16, 16),
    "wgmma_m64n8k16_f16": ("f16", 8, 16),
    "wgmma_m64n32k32_i8": ("i8", 32, 32),
    "wgmma_m64n64k32_f8e4m3fn": ("f8e4m3fn", 64, 32),
    "wgmma_m64n24k32_f8e5m2": ("f8e5m2", 24, 32),
    "wgmma_m64n192k8_tf32": ("f32", 192, 8),
}


@cache
def compiled(kernel: Kernel, *, bounded_waits: bool = False) -> tuple[EmittedModule, str]:
    """The module and the PTX of it."""
    module = thread_to_module(kernel, NVIDIA, interface_of(kernel), bounded_waits=bounded_waits)
    return module, module_to_binaries(module)[0][0].data.decode()


def assembled(ptx: str, folder: Path) -> str:
    """What the assembler says of registers and of matrix instructions that it cannot overlap."""
    (folder / "kernel.ptx").write_text(ptx)
    command = ["ptxas", "-v", "-arch=sm_90a", "kernel.ptx", "-o", "kernel.cubin"]
    result = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    assert result.returncode == 0, result.stderr
    assert "0 bytes spill stores" in result.stderr, result.stderr
    assert "warning" not in result.stderr and "C75" not in result.stderr, result.stderr
    return result.stderr


def test_the_kernels_are_well_formed() -> None:
    for kernel in (specialised_gemm(), single_product("wgmma_m64n16k16_bf16", "bf16", 16, 16)):
        verify(kernel)
        assert parse_kernel(print_kernel(kernel)) == kernel


@pytest.mark.compiles
def test_specialised_gemm() -> None:
    module, ptx = compiled(specialised_gemm())
    assert ".maxntid 384" in ptx and ".minnctapersm 1" in ptx
    assert re.findall(r"setmaxnreg\.(\w+)\S*\s+(\d+)", ptx) == [("dec", "40"), ("inc", "232")]
    assert ptx.count("mbarrier.init") == 8
    assert ptx.count("cp.async.bulk.tensor.2d.shared::cluster.global") == 2
    assert ptx.count("cp.async.bulk.tensor.2d.global.shared::cta") == 4
    assert ptx.count("stmatrix") == 16 and "st.global" not in ptx
    assert ptx.count("cvt.rn.bf16x2.f32") == 64
    assert module.interface.tensor_maps == (
        TensorMap("a", (128, 64), 128),
        TensorMap("b", (256, 64), 128),
        TensorMap("c", (64, 64), 128),
    )
    parameters = re.findall(r"^\s*\.param (.*?)\S*_param_(\d+)", ptx, re.MULTILINE)
    assert [int(number) for kind, number in parameters if "b8" in kind] == [3, 4, 5], "maps by value, behind tensors"
    # 4 stages of 48 KiB, two slabs of 16 KiB, 8 signals
    assert module.interface.shared_memory_bytes == 4 * 49152 + 2 * 16384 + 8 * 8


def test_turned_results_are_laid_down_by_transposed_matrix_stores() -> None:
    text = emit(rounded(hopper_gemm(tile=(192, 64, 64), wave=(192, 64))), NVIDIA).text
    stores = [line for line in text.splitlines() if "nvvm.stmatrix" in line]
    assert len(stores) == 12 and all("layout = #nvvm.mma_layout<col>" in line for line in stores)


@pytest.mark.compiles
def test_products_of_a_step_follow_each_other() -> None:
    _, ptx = compiled(specialised_gemm())
    batch = ptx[ptx.index("wgmma.fence") : ptx.index("wgmma.commit_group")]
    assert len(re.findall(r"wgmma\.mma_async\S* \{", batch)) == ptx.count("wgmma.mma_async") == 4
    assert "bra" not in batch and "shfl" not in batch
    registers = [line[line.index("{") : line.index("}")] for line in batch.splitlines() if "mma_async" in line]
    assert len(set(registers)) == 1, "accumulators stay where they are"


@pytest.mark.compiles
@needs_ptxas
def test_specialised_gemm_has_registers_for_its_roles(tmp_path: Path) -> None:
    _, ptx = compiled(specialised_gemm())
    assert "Used 168 registers" in assembled(ptx, tmp_path), "65536 over 384 lanes, in eights"


@pytest.mark.compiles
@needs_ptxas
def test_bounded_waits_trap(tmp_path: Path) -> None:
    _, ptx = compiled(specialised_gemm(), bounded_waits=True)
    assert ptx.count("trap;") == 2
    assembled(ptx, tmp_path)
    assert "trap" not in compiled(specialised_gemm())[1]


@pytest.mark.compiles
@needs_ptxas
@pytest.mark.parametrize("registers", [False, True])
@pytest.mark.parametrize("row", PRODUCTS)
def test_products_of_every_type(row: str, registers: bool, tmp_path: Path) -> None:
    dtype, n, k = PRODUCTS[row]
    _, ptx = compiled(single_product(row, dtype, n, k, registers=registers))
    instruction = NVIDIA.instruction(row)
    assert instruction is not None
    assert ptx.count(instruction.emit.partition(":")[2] + " ") == 4
    assert len(re.findall(r"setp\.ne\.b32 p, 0, 0", ptx)) == 1, "the first product does not read the accumulators"
    assembled(ptx, tmp_path)


@pytest.mark.parametrize("most_dims", [5, 3])
def test_rows_that_are_not_there_are_behind_the_end_of_a_map_that_has_room_for_it(most_dims: int) -> None:
    """Of 64 rows from the first on 5 are there: one box by a map of two dims more, or each row by itself."""

    def ended(op: Op) -> tuple[Op, ...]:
        return (op.with_(valid=const(5)) if op["source"] == "a" else op,)

    kernel = single_product("wgmma_m64n16k16_bf16", "bf16", 16, 16, registers=False)
    kernel = replace(kernel, body=rewrite(kernel.body, ended, BULK_COPY))
    machine = replace(NVIDIA, globals=replace(NVIDIA.globals, bulk_box_dims=most_dims))
    module = thread_to_module(kernel, machine, interface_of(kernel))
    boxes = [copy.count(",") + 1 for copy in re.findall(r"box\[([^\]]*)\]", module.text)]
    whole, others = TensorMap("a", (64, 64), 128), [TensorMap("b", (16, 64), 128)]
    if most_dims == 5:
        assert boxes == [4, 2]
        assert [*module.interface.tensor_maps] == [replace(whole, ended=0), *others]
    else:
        assert boxes == [2, 2, 2]
        assert [*module.interface.tensor_maps] == [whole, replace(whole, box=(1, 64)), *others]


@pytest.mark.compiles
@needs_ptxas
@pytest.mark.parametrize(("registers", "factors"), [(False, "1,  1, 1,  1"), (True, "1, 1, 1")])
def test_contiguous_columns(registers: bool, factors: str, tmp_path: Path) -> None:
    kernel = single_product("wgmma_m64n128k16_f16", "f16", 128, 16, registers=registers, major="mn")
    module, ptx = compiled(kernel)
    assert ptx.count(f"p, {factors};") == 4
    assert module.interface.tensor_maps[-1] == TensorMap("b", (64, 64), 128), "one map for both slabs"
    assembled(ptx, tmp_path)


def test_registers_that_arithmetic_made_stay_above_the_fence() -> None:
    kernel = single_product("wgmma_m64n16k16_bf16", "bf16", 16, 16, registers=True)
    text = thread_to_mlir(kernel, NVIDIA, "#layout").text
    before = text[: text.index("wgmma.fence")]
    assert before.count('att "", "=r,=r,=r,=r,0,1,2,3"') == 4, "the four words of `a` of each of the four products"
    in_flight = thread_to_mlir(specialised_gemm(), NVIDIA, "#layout").text
    assert 'att ""' not in in_flight[: in_flight.index("wgmma.wait")], "accumulators in flight are left alone"


BARRIERS = """
thread kernel @barriers target sm_90 lanes 128
symbol lane in 0..127 by 1
symbol wave_M in 0..1 by 1
plan "auto" stages 1 group 0
wave wave_M 2
producers 1
grid [1]
memory @c : f32 (M: [384]) global output
{
barrier
barrier {first = [wave_M], waves = 1}
barrier {first = [0], waves = 2}
barrier {first = [wave_M], waves = 1}
role {first = [2], registers = 0, waves = 1} () do
  yield
end
}
"""


def test_waves_that_meet_have_a_barrier_of_their_own() -> None:
    text = thread_to_mlir(parse_kernel(BARRIERS), NVIDIA, "#layout").text
    values = {name: int(value) for name, value in re.findall(r"(%\w+) = arith\.constant (-?\d+) : i32", text)}
    found = re.findall(r"nvvm\.barrier(?: id = (\S+) number_of_threads = (\S+))?", text)
    sums = dict(re.findall(r"(%\w+) = arith\.addi %\w+, (%\w+) : i32", text))
    # numbers 1 to 3 for the waves of one barrier, 4 for the two waves
    assert [values.get(lanes) for _, lanes in found] == [None, 128, 256, 128]
    assert values[sums[found[1][0]]] == 1 and found[1][0] == found[3][0]
    assert values[found[2][0]] == 4


def test_signals_behind_tiles_that_take_all_of_shared_memory_are_refused() -> None:
    gemm = hopper_gemm(tile=(64, 8, 64), wave=(64, 8), stages=25, schedule=TOGETHER)
    tiles = 25 * (64 + 8) * 64 * 2
    full = replace(NVIDIA, shared=replace(NVIDIA.shared, bytes=tiles + 100))
    with pytest.raises(WavespecError, match=r"error\[shared-memory-exceeded\]: The staged tiles need 230800 bytes"):
        emit(gemm.spec, full)


@pytest.mark.parametrize(("consumer", "workgroups"), [(232, 2), (240, 1), (152, 2), (88, 4)])
def test_as_many_workgroups_run_on_a_processor_as_have_registers(consumer: int, workgroups: int) -> None:
    roles = f"waves: {{producers: 1, registers: {{producer: 24, consumer: {consumer}}}}}"
    gemm = hopper_gemm(tile=(64, 64, 64), schedule=roles, stages=2)
    assert f"nvvm.minctasm = {workgroups} : i32" in emit(gemm.spec, NVIDIA).text


@pytest.mark.parametrize(("consumer", "workgroups"), [(104, 2), (112, 1)])
def test_workgroups_have_room_beside_each_other_for_what_their_lanes_start_with(consumer: int, workgroups: int) -> None:
    """Two of 384 lanes start with 80 each, and share out 30720; 24 and twice 112 for 128 lanes are 31744, as many as
    half of the file has."""
    roles = f"waves: {{producers: 1, registers: {{producer: 24, consumer: {consumer}}}}}"
    gemm = hopper_gemm(tile=(128, 64, 64), schedule=roles, stages=2)
    assert f"nvvm.minctasm = {workgroups} : i32" in emit(gemm.spec, NVIDIA).text


def test_in_clusters_addresses_leave_the_leading_dim_of_turned_operands_alone() -> None:
    """Above their 18 bits they have the number of the workgroup, which the unit would add to the distance."""
    straight, turned, split = ("M, K", "N, K", "M, N"), ("M, K", "K, N", "M, N"), ", workgroups: {split: 2}"
    cut = {
        (schedule, orders)
        for schedule in ("", split)
        for orders in (straight, turned)
        if "arith.constant 16383"
        in emit(hopper_gemm(schedule=f"waves: {{producers: 1}}{schedule}", orders=orders).spec, NVIDIA).text
    }
    assert cut == {(split, turned)}
