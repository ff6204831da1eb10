"""Products in tile registers, run on any CPU by loops that do what the instructions do."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
import torch

from tests.emit.emulated_tiles import emulated
from wavespec.emit.targets import module_to_binaries
from wavespec.ir.thread_ops import MMA
from wavespec.pipeline import emit, lower
from wavespec.runtime.kernel import Kernel
from wavespec.schema import KernelSpec, loads
from wavespec.schema.reading.spec_to_yaml import dump_yaml
from wavespec.targets.machine import machines

AMX, AVX2 = machines("cpu")[0], machines("cpu")[-1]
TILES_ALONE = replace(AMX, compiler=AVX2.compiler, requires=AVX2.requires)
"""Tile registers beside what every CPU has: without them, code for them runs everywhere."""


TWO_PRODUCTS = loads("""
apiVersion: wavespec/v1
kind: Kernel
name: two_products
dims:
  M: {multiple_of: 64}
  N: {multiple_of: 32}
  K: {multiple_of: 64}
tensors:
  x: {shape: [M, K], dtype: bf16, space: shared}
  a: {shape: [N, K], dtype: bf16, space: shared}
  b: {shape: [N, K], dtype: bf16, space: shared}
  y: {shape: [M, N], dtype: f32, role: output}
constraints:
  - {workgroup: M, tile: 64, axis: 0}
  - {workgroup: N, tile: 32, axis: 1}
  - {tiling: K, tile: 64}
  - {wave: M, tile: 64}
  - {hardware: {mma: auto}}
graph:
  - zero: {register: [M, N], dtype: f32, value: 0}
  - sums:
      iterate: K
      carry: {one: zero, other: zero}
      body:
        - x_tile: {read: x}
        - a_tile: {read: a}
        - b_tile: {read: b}
        - one: {mma: [x_tile, a_tile, one]}
        - other: {mma: [x_tile, b_tile, other]}
  - result: "f32(bf16(sums.one)) - sums.other"
  - {write: result, to: y}
""")


ROUNDED = loads("""
apiVersion: wavespec/v1
kind: Kernel
name: rounded
dims:
  M: {multiple_of: 64}
  N: {multiple_of: 32}
  K: {multiple_of: 64, max: 128}
tensors:
  x: {shape: [M, K], dtype: bf16, space: shared}
  a: {shape: [N, K], dtype: bf16, space: shared}
  y: {shape: [M, N], dtype: bf16, role: output}
constraints:
  - {workgroup: M, tile: 64, axis: 0}
  - {workgroup: N, tile: 32, axis: 1}
  - {tiling: K, tile: 128}
  - {wave: M, tile: 64}
  - {hardware: {mma: auto}}
graph:
  - zero: {register: [M, N], dtype: f32, value: 0}
  - sums:
      iterate: K
      carry: {acc: zero}
      body:
        - x_tile: {read: x}
        - a_tile: {read: a}
        - acc: {mma: [x_tile, a_tile, acc]}
  - result: {cast: sums.acc, dtype: bf16}
  - {write: result, to: y}
""")


WRITTEN_BEHIND = loads("""
apiVersion: wavespec/v1
kind: Kernel
name: written_behind
dims:
  M: {}
  N: {}
  K: {multiple_of: 8}
tensors:
  x: {shape: [M, K], dtype: bf16, space: shared}
  a: {shape: [N, K], dtype: bf16, space: shared}
  y: {shape: [M, N], dtype: f32, role: output}
constraints:
  - {workgroup: M, tile: 64, axis: 0}
  - {workgroup: N, tile: 96, axis: 1}
  - {tiling: K, tile: 512}
  - {hardware: {mma: auto}}
graph:
  - zero: {register: [M, N], dtype: f32, value: 0}
  - sums:
      iterate: K
      carry: {acc: zero}
      body:
        - x_tile: {read: x}
        - a_tile: {read: a}
        - acc: {mma: [x_tile, a_tile, acc]}
  - {write: sums.acc, to: y}
""")


def emulated_kernel(spec: KernelSpec) -> Kernel:
    module = emit(spec, TILES_ALONE)
    assert "llvm.x86.tdpbf16ps" in module.text
    binaries, _ = module_to_binaries(replace(module, text=emulated(module.text)))
    return Kernel(replace(module.interface, binaries=binaries))


@pytest.mark.compiles
def test_two_blocks_of_sums_are_kept_apart_and_what_is_rounded_stays_so() -> None:
    random = torch.Generator().manual_seed(0)
    x, a, b = (torch.randint(-9, 20, (rows, 128), generator=random).bfloat16() for rows in (128, 64, 64))
    one, other = (x.float() @ matrix.float().T for matrix in (a, b))
    assert not torch.equal(one, one.bfloat16().float()), "rounding shows"
    assert torch.equal(emulated_kernel(TWO_PRODUCTS)(x, a, b), one.bfloat16().float() - other)


def test_sums_are_rounded_two_vectors_at_a_time() -> None:
    text = "\n".join(" ".join(line.split(" loc(")[:1]) for line in emit(ROUNDED, AMX).text.splitlines())
    assert text.count("cvtne2ps2bf16") == 32, "rows of a block"
    assert "cmpf uno" not in text


@pytest.mark.compiles
def test_rounded_sums_are_in_their_places() -> None:
    random = torch.Generator().manual_seed(0)
    x, a = (torch.randint(-9, 20, (64, 128), generator=random).bfloat16() for _ in range(2))
    assert torch.equal(emulated_kernel(ROUNDED)(x, a), (x.float() @ a.float().T).bfloat16())


def test_blocks_of_sums_have_a_scratch_memory_each() -> None:
    module = emit(TWO_PRODUCTS, AMX).text
    stores = [line.split(", ")[1] for line in module.splitlines() if "tilestored64" in line]
    assert len(stores) == 2 * 4 == len(set(stores))
    assert module.count("memref<4096xi8") >= 2
    assert " iter_args" not in module, "no sums in vector registers"


def test_all_operands_are_loaded_in_front_of_products() -> None:
    words = re.findall(r"llvm\.x86\.(tileload\w+|tdp\w+)", emit(WRITTEN_BEHIND, AMX).text)
    assert words == ["tileloadd64", "tileloaddt164", "tileloaddt164", "tileloadd64", *["tdpbf16ps"] * 4]


def test_rows_that_the_nearest_cache_holds_stay_there() -> None:
    """32 rows of 512 elements do, panels of 96 columns do not, and where it holds nothing nothing stays."""
    nothing = emit(WRITTEN_BEHIND, replace(AMX, nearest_cache_bytes=1024)).text
    assert "tileloadd64" not in nothing
    assert "tileloaddt164" not in emit(TWO_PRODUCTS, AMX).text


@pytest.mark.compiles
@pytest.mark.parametrize("sizes", [(64, 96, 512), (70, 200, 1040), (33, 97, 64), (1, 1, 8), (64, 96, 0)])
def test_sums_that_wait_are_all_written(sizes: tuple[int, int, int]) -> None:
    random = torch.Generator().manual_seed(0)
    m, n, k = sizes
    x, a = (torch.randint(-9, 20, (rows, k), generator=random).bfloat16() for rows in (m, n))
    assert torch.equal(emulated_kernel(WRITTEN_BEHIND)(x, a), x.float() @ a.float().T)


WIDE = loads(
    dump_yaml(TWO_PRODUCTS)
    .replace("tile: 32, axis: 1", "tile: 64, axis: 1")
    .replace("mma: auto", "mma: amx_bf16_16x64x32")
    .replace("multiple_of: 32", "multiple_of: 64")
)
"""The same in blocks of 16 rows, which four tiles fill side by side."""


@pytest.mark.compiles
def test_blocks_of_sixteen_rows_are_in_their_places() -> None:
    random = torch.Generator().manual_seed(0)
    x, a, b = (torch.randint(-9, 20, (rows, 128), generator=random).bfloat16() for rows in (128, 64, 64))
    one, other = (x.float() @ matrix.float().T for matrix in (a, b))
    assert torch.equal(emulated_kernel(WIDE)(x, a, b), one.bfloat16().float() - other)


TALL = loads(
    dump_yaml(TWO_PRODUCTS)
    .replace("tile: 64, axis: 0", "tile: 16, axis: 0")
    .replace("wave: M, tile: 64", "wave: M, tile: 16")
    .replace("mma: auto", "mma: right_in_place")
)
"""The same in blocks of 32 rows of the other matrix by 16."""


def test_blocks_of_sixteen_columns_are_two_tiles() -> None:
    products = [op["instruction"] for op in lower(TALL, AMX).walk() if op.is_(MMA)]
    assert set(products) == {"amx_bf16_32x16x32:swapped"}
    text = emit(TALL, AMX).text
    assert text.count("llvm.x86.tdpbf16ps") == 2 * len(products)
    stored = re.findall(r'"llvm.x86.tilestored64"\(\S+, \S+, (\S+)\)', text)
    assert stored
    assert all(f"{stride} = arith.constant 64 : i64" in text for stride in stored)  # bytes of a row of sums
