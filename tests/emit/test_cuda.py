"""Emission for NVIDIA: what is in the PTX, that registers suffice, and that workgroups keep their ids."""

from __future__ import annotations

import re
import shutil
import subprocess
from functools import cache
from pathlib import Path

import pytest

from tests.lower.gemms import NVIDIA, Gemm
from tests.lower.test_shift_rows import NORM
from tests.sim.simulated_kernels import kernel, shared, tensor
from wavespec.emit.cuda_memory import CudaMemory
from wavespec.emit.thread_to_mlir import thread_to_mlir, unwritten
from wavespec.pipeline import build_variant, lower
from wavespec.schema import loads

TILES: dict[str, tuple[tuple[int, int, int], tuple[int, int], int]] = {
    "f16": ((128, 128, 32), (64, 64), 8),
    "bf16": ((256, 128, 64), (64, 64), 8),
    "i8": ((256, 128, 128), (64, 64), 16),
    "f32": ((128, 128, 32), (32, 64), 4),
}


@cache
def ptx(dtype: str, stages: int, mma: str = "auto") -> str:
    """The kernel that the compiler makes of a GEMM of any M and N."""
    tile, wave, multiple = TILES[dtype]
    gemm = Gemm(dtype, tile, wave, mma, ("", "", f"multiple_of: {multiple}"), stages=stages)
    return build_variant(gemm.spec, NVIDIA)[0].binaries[0].data.decode()


def the_loop(text: str) -> list[str]:
    """Instructions of the innermost loop, between its label and its branch back."""
    lines = text.splitlines()
    start = next(i for i, line in enumerate(lines) if "nounroll" in line)
    label = lines[start - 1].rstrip(":")
    end = next(i for i in range(start, len(lines)) if "bra" in lines[i] and label in lines[i])
    return [line.strip() for line in lines[start:end] if line.startswith("\t")]


@pytest.mark.compiles
@pytest.mark.parametrize(
    ("dtype", "instruction"),
    [
        ("f16", "m16n8k16.row.col.f32.f16.f16.f32"),
        ("bf16", "m16n8k16.row.col.f32.bf16.bf16.f32"),
        ("i8", "m16n8k32.row.col.s32.s8.s8.s32"),
        ("f32", "fma.rn.f32"),
    ],
)
def test_instructions_of_a_step(dtype: str, instruction: str) -> None:
    text = ptx(dtype, 3)
    loop = the_loop(text)
    tile, _, multiple = TILES[dtype]
    threads = int(re.findall(r"\.maxntid (\d+)", text)[0])
    copies = [line for line in loop if line.startswith("cp.async.cg.shared.global")]
    assert len(copies) * threads * multiple == (tile[0] + tile[1]) * tile[2], "16 bytes each"
    assert any(instruction in line for line in loop)
    assert sum(line.startswith("bar.sync") for line in loop) == 1
    assert [line for line in loop if "wait_group" in line] == ["cp.async.wait_group \t1;"]
    assert not [line for line in loop if line.startswith(("@", "ld.global", "st.", "div", "rem"))], "straight-line code"
    assert any(line.startswith("ldmatrix") for line in loop) == (dtype != "f32")


@pytest.mark.compiles
def test_f32_as_three_products() -> None:
    loop = the_loop(ptx("f32", 3, "mma3_m16n8k8_f32"))
    products = sum("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32" in line for line in loop)
    # 2 x 8 fragments of a wave, 4 steps of k
    assert products == 3 * 2 * 8 * 4
    assert sum(line.startswith("add.rn.f32") for line in loop) == products // 3 * 4


@pytest.mark.compiles
def test_sums_of_four_products_are_added_to_the_total() -> None:
    loop = the_loop(ptx("f32", 3, "fma_sums_f32_16x32x4"))
    counts = {name: sum(line.startswith(f"{name}.rn.f32") for line in loop) for name in ("mul", "fma", "add")}
    # 32 x 64 elements of a wave, 32 lanes, 8 steps of k; what a step comes to is added to the steps before
    assert counts == {"mul": 64 * 8, "fma": 3 * 64 * 8, "add": 64 * 8 + 64}


@pytest.mark.compiles
@pytest.mark.skipif(shutil.which("ptxas") is None, reason="ptxas, of the CUDA toolkit, is not on the PATH")
@pytest.mark.parametrize(
    ("dtype", "stages", "mma"),
    [
        ("f16", 1, "auto"),
        ("bf16", 4, "auto"),
        ("i8", 4, "auto"),
        ("f32", 3, "auto"),
        ("f32", 3, "mma3_m16n8k8_f32"),
    ],
)
def test_no_register_is_spilled(dtype: str, stages: int, mma: str, tmp_path: Path) -> None:
    source = tmp_path / "kernel.ptx"
    source.write_text(ptx(dtype, stages, mma))
    command = ["ptxas", "-v", "-arch=sm_90a", str(source), "-o", str(tmp_path / "kernel.cubin")]
    report = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    assert "0 bytes spill stores" in report, report


@pytest.mark.compiles
def test_pairs_are_stored_at_once_where_rows_are_even() -> None:
    text = ptx("f16", 1)
    pairs, singles = text.count("st.global.v2"), len(re.findall(r"st\.global\.[bf]32", text))
    assert singles == 2 * pairs > 0, "a wide store and a narrow way out for each pair"
    gemm = Gemm(tile=(32, 64, 32), dims=("", "multiple_of: 2", "multiple_of: 8"))
    promised = build_variant(gemm.spec, NVIDIA)[0].binaries[0].data.decode()
    assert "st.global.v2" in promised and not re.findall(r"st\.global\.[bf]32", promised)


@pytest.mark.compiles
@pytest.mark.parametrize("dtype", ["bf16", "f16"])
def test_elements_that_may_be_missing_are_asked_for_before_one_is_converted(dtype: str) -> None:
    """LLVM would convert an element of 16 bits in the branch that loads it, and wait for each before the next."""
    spec = loads(
        f"""apiVersion: wavespec/v1
kind: Kernel
name: widened
dims: {{M: {{}}, N: {{}}}}
tensors:
  x: {{shape: [M, N], dtype: {dtype}}}
  y: {{shape: [M, N], dtype: f32, role: output}}
constraints:
  - {{workgroup: M, tile: 4, axis: 1}}
  - {{workgroup: N, tile: 256, axis: 0}}
graph:
  - part: {{read: x}}
  - result: f32(part)
  - {{write: result, to: y}}
""",
        "widened.wave.yaml",
    )
    text = build_variant(spec, NVIDIA)[0].binaries[0].data.decode()
    loads_of_16_bits = re.findall(r"\tld\.global\S*\.b16 [^\n]*\n([^\n]*)", text)
    assert loads_of_16_bits
    assert not [line for line in loads_of_16_bits if line.startswith(("\tshl", "\tcvt", "\tmov.b32"))]


def test_elements_that_are_copied_are_packed_where_they_are_loaded() -> None:
    """What keeps conversions out of branches takes a register for each element, where a pair could be one word."""
    text = """
      %a = load {memory = "x", offset = [lane], mask = (([lane], [20],),)} : bf16x1
      store %a {memory = "y", offset = [lane]}
    """
    memories = [tensor("x", "input", 64, dtype="bf16"), tensor("y", "output", 64, dtype="bf16")]
    assert "inline_asm" not in thread_to_mlir(kernel(NVIDIA, memories, text), NVIDIA, "#layout").text


def test_elements_loaded_one_by_one_wait_in_words() -> None:
    memories = [tensor("x", "input", 64, dtype="bf16"), tensor("y", "output", 64)]
    body = """
      %a = load {memory = "x", offset = [lane*2], mask = (([lane], [20],),)} : bf16x1
      %b = load {memory = "x", offset = [lane*2 + 1], mask = (([lane], [19],),)} : bf16x1
      %pair = pack %a, %b : bf16x2
      %later = opaque %pair : bf16x2
      %wide = cast %later : f32x2
      store %wide {memory = "y", offset = [lane*2]}
    """
    text = thread_to_mlir(kernel(NVIDIA, memories, body), NVIDIA, "#layout").text
    assert "vector<2xbf16> to i32" in text and "vector<0x" not in text


@pytest.mark.compiles
@pytest.mark.parametrize("dims", [("value: 20", "", ""), ("", "value: 20", ""), ("value: 32", "value: 64", "value: 8")])
def test_a_fixed_dim_of_one_tile_has_no_workgroup_id(dims: tuple[str, str, str]) -> None:
    assert build_variant(Gemm(tile=(32, 64, 32), wave=(32, 32), dims=dims).spec, NVIDIA)[0].binaries


def test_tiles_begin_where_the_widest_access_may() -> None:
    """Behind a tile of any size, such as one row of five elements that a `take` hands on."""
    few = kernel(NVIDIA, [shared("few", 5), shared("more", 64), shared("last", 3, dtype="i8")])
    starts = [
        place.start for place in CudaMemory(unwritten(few, NVIDIA, "#layout"), swizzled_tiles=False).places.values()
    ]
    assert starts == [0, 32, 288]


@pytest.mark.parametrize(("dtype", "many"), [("f32", False), ("bf16", True)])
def test_ends_of_rows_are_compared_where_they_are_stored_if_they_are_many(dtype: str, many: bool) -> None:
    text = NORM.replace("dtype: f32}", f"dtype: {dtype}}}").replace("dtype: f32, role", f"dtype: {dtype}, role")
    if dtype != "f32":
        text = text.replace("- total: {sum: part", "- wide: f32(part)\n        - total: {sum: wide")
        text = text.replace('"last * factor + rows.total"', f'"{dtype}(f32(last) * f32(factor) + rows.total)"')
    rows = lower(loads(text, "norm.wave.yaml"), NVIDIA)
    assert CudaMemory(unwritten(rows, NVIDIA, "#layout"), swizzled_tiles=False).has_many_ends is many


def test_a_tile_that_is_staged_behind_a_checked_store_goes_to_its_buffer() -> None:
    body = """%v = load {memory = "x", offset = [lane*4]} : f32x4
    store %v {memory = "y", offset = [lane*4], valid = [99 - lane*4]}
    store %v {memory = "s", buffer = [1], offset = [lane*4]}"""
    memories = [tensor("x", "input", 128), tensor("y", "output", 99), shared("s", 128, buffers=2)]
    text = thread_to_mlir(kernel(NVIDIA, memories, body), NVIDIA, "#layout").text
    assert re.search(r"getelementptr %\d+\[128\] : \(!llvm.ptr<3>\)", text)
