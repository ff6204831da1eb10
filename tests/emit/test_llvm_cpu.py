"""MLIR for CPUs: plain accesses where a block is whole, masked ones at edges, sums in tile registers."""

from __future__ import annotations

import re

import pytest

from tests.lower.gemms import Gemm
from wavespec.pipeline import emit, lower
from wavespec.schema import loads
from wavespec.targets.machine import Machine, machines

VARIANTS = {machine.variant: machine for machine in machines("cpu")}
AVX2, AVX512, AMX = VARIANTS["x86_64_v3"], VARIANTS["x86_64_v4"], VARIANTS["x86_64_amx"]
DOTS = VARIANTS["x86_64_v4_bf16"]
WHOLE = ("multiple_of: 96", "multiple_of: 64", "multiple_of: 64")


def text(machine: Machine, dtype: str = "f32", dims: tuple[str, str, str] = ("", "", ""), **changes: object) -> str:
    tile = (96, 64, 64)  # several waves of every instruction
    return emit(Gemm(dtype=dtype, tile=tile, wave=(None, None), dims=dims, **changes).spec, machine).text  # pyright: ignore[reportArgumentType]


def count(module: str, word: str) -> int:
    return len(re.findall(rf"\b{re.escape(word)}\b", module))


def last_loop(module: str) -> str:
    """The steps of a product that announce nothing, behind those that do."""
    return module[module.rindex("scf.for") :]


def test_a_step_is_one_multiply_add_per_register_of_the_tile() -> None:
    assert count(last_loop(text(AVX2)), "math.fma") == 6 * 16 // 8
    assert count(last_loop(text(AVX512)), "math.fma") == 12 * 32 // 16


def test_promised_sizes_need_no_masks() -> None:
    module = text(AVX512, dims=WHOLE)
    assert count(module, "vector.maskedstore") == 0
    # Two copies, which an empty sum must not read; the sums: the first step or not.
    assert count(module, "scf.if") == 3


def test_a_block_at_an_edge_is_tested_once() -> None:
    module = text(AVX512)
    assert count(module, "vector.maskedstore") == 24
    # Two copies, and the sums: inside or not, then the first step or not.
    assert count(module, "scf.if") == 4


def test_the_first_step_does_not_read_the_output() -> None:
    module = text(AVX512)
    sums = module[module.rindex("scf.for") :]
    assert count(sums, "arith.addf") == 2 * 24, (
        "one plain and one masked form that add, one plain form that only stores"
    )


@pytest.mark.parametrize("machine", [AVX512, AVX2], ids=lambda machine: machine.variant)
def test_sums_of_whole_tiles_are_read_before_any_is_stored(machine: Machine) -> None:
    """A load waits for an earlier store to the same place of another page, where rows that are a power of 2 apart are."""
    module = text(machine)
    words = re.findall("arith.addf|vector.store", module[module.rindex("scf.for") :])
    sums = words.index("vector.store")
    assert sums >= 6
    assert words[sums : 2 * sums] == ["vector.store"] * sums


def test_output_lines_are_announced() -> None:
    """Eight in each of the first three steps, which have a loop of their own."""
    assert count(text(AVX512), "memref.prefetch") == 24 // 3


ROWS = """\
apiVersion: wavespec/v1
kind: Kernel
name: doubled
dims: {M: {}, N: {multiple_of: 16}}
tensors:
  x: {shape: [M, N], dtype: f32}
  y: {shape: [M, N], dtype: f32, role: output, space: streamed}
constraints:
  - {workgroup: M, tile: 4, axis: 0}
  - {workgroup: N, tile: 64, axis: 1}
graph:
  - part: {read: x}
  - twice: part + part
  - {write: twice, to: y}
"""


def test_streamed_outputs_are_stored_past_the_caches_where_vectors_are_whole() -> None:
    module = emit(loads(ROWS, "rows.wave.yaml"), AVX512).text
    assert count(module, "alignment = 16 : i64, nontemporal = true") == 4 * 64 // 16
    assert count(module, "llvm.x86.sse.sfence") == 1


@pytest.mark.parametrize(("old", "new"), [("multiple_of: 16", "multiple_of: 2"), (", space: streamed", "")])
def test_other_stores_are_plain(old: str, new: str) -> None:
    assert count(emit(loads(ROWS.replace(old, new), "rows.wave.yaml"), AVX512).text, "nontemporal") == 0


def test_the_end_of_a_row_is_stored_by_masks_only_where_these_cost_nothing() -> None:
    spec = loads(ROWS.replace("{multiple_of: 16}", "{}").replace(", space: streamed", ""), "rows.wave.yaml")
    avx2, avx512 = (emit(spec, machine).text for machine in (AVX2, AVX512))
    assert count(avx512, "vector.maskedstore") == count(avx512, "vector.store")
    assert count(avx2, "vector.store") == 2 * count(avx2, "vector.maskedstore"), "of all, and of each that is whole"


def test_pairs_along_k_are_one_instruction() -> None:
    assert count(last_loop(text(DOTS, "bf16")), "llvm.x86.avx512bf16.dpbf16ps.512") == 24
    assert count(last_loop(text(AVX512, "i8")), "llvm.x86.avx512.pmaddw.d.512") == 24
    assert count(last_loop(text(AVX2, "i8")), "llvm.x86.avx2.pmadd.wd") == 12


@pytest.mark.parametrize("tile", [(24, 64, 64), (64, 24, 64)], ids=["straight", "swapped"])
def test_what_a_bias_adds_is_no_part_of_the_loop_of_products(tile: tuple[int, int, int]) -> None:
    module = emit(Gemm("i8", tile, wave=(None, None), mma="dot4_i8_12x32x4").spec, DOTS).text
    assert count(last_loop(module), "llvm.x86.avx512.vpdpbusd.512") == 24
    assert count(module, "llvm.x86.avx512.vpdpbusd.512") == 24 + 24 + 2, "steps that announce, others, and the sums"
    assert len(re.findall(r"arith\.subi .* : vector<16xi32>", module)) == 2


@pytest.mark.parametrize("tile", [(12, 64, 64), (64, 12, 64)], ids=["straight", "swapped"])
def test_what_a_bias_adds_for_one_tile_is_summed_beside_it_and_taken_away_after_the_loop(
    tile: tuple[int, int, int],
) -> None:
    module = emit(Gemm("i8", tile, wave=(None, None), mma="dot4_i8_12x32x4").spec, DOTS).text
    assert count(module, "llvm.x86.avx512.vpdpbusd.512") == 24 + 2
    after = module[module.rindex("llvm.x86.avx512.vpdpbusd.512") :]
    assert len(re.findall(r"arith\.subi .* : vector<16xi32>", after)) == 24
    assert "dense<128> : vector<64xi8>" in module, "where rows are staged, and as a row of its own"


@pytest.mark.parametrize(
    ("dtype", "product", "count_of"),
    [
        ("f32", "math.fma", 24),
        ("f16", "math.fma", 24),
        ("bf16", "llvm.x86.avx512bf16.dpbf16ps.512", 24),
        ("i8", "llvm.x86.avx512.vpdpbusd.512", 16 + 4),
    ],
)
def test_inner_products_read_in_place_and_add_up_their_lanes_after_the_loop(
    dtype: str, product: str, count_of: int
) -> None:
    module = emit(Gemm(dtype=dtype, tile=(4, 12, 128), wave=(None, None)).spec, DOTS).text
    assert count(module, product) == count_of
    assert "memref.alloc" not in module
    loop = module.rindex(product)
    assert module.rindex("vector.shuffle") > loop > module.rindex("scf.for")
    assert "vector.shuffle" not in module[:loop]


@pytest.mark.parametrize(("dtype", "intrinsic"), [("bf16", "llvm.x86.tdpbf16ps"), ("i8", "llvm.x86.tdpbssd")])
def test_tiles_are_loaded_once_per_step_and_sums_stay_in_tiles(dtype: str, intrinsic: str) -> None:
    module = text(AMX, dtype)
    assert [
        count(module, f"llvm.x86.{word}")
        for word in ("ldtilecfg", "tilezero", "tileloadd64", "tilestored64", "tilerelease")
    ] == [1, 4, 4, 4, 1]
    assert count(module, intrinsic) == 4
    loop = module[module.index("tilezero") : module.index("tilestored64")]
    assert loop.count(f'"{intrinsic}"') == 4 and "iter_args" not in loop
    assert count(loop, "scf.for") == 3, "of products, of rows written beside them, and of those that are left"


def test_sums_that_start_elsewhere_are_loaded_into_tiles() -> None:
    module = text(AMX, "bf16", value=-2)
    assert count(module, "llvm.x86.tilezero") == 0
    assert count(module, "llvm.x86.tileloadd64") == 8


def test_sums_leave_tiles_row_by_row() -> None:
    rounded = """apiVersion: wavespec/v1
kind: Kernel
name: rounded
dims: {M: {}, N: {}, K: {max: 64}}
tensors:
  a: {shape: [M, K], dtype: bf16, space: shared}
  b: {shape: [N, K], dtype: bf16, space: shared}
  c: {shape: [M, N], dtype: bf16, role: output}
constraints:
  - {workgroup: M, tile: 32, axis: 0}
  - {workgroup: N, tile: 32, axis: 1}
  - {tiling: K, tile: 64}
graph:
  - zero: {register: [M, N], dtype: f32, value: 0}
  - sums: {iterate: K, carry: {acc: zero}, body: [a_tile: {read: a}, b_tile: {read: b}, acc: {mma: [a_tile, b_tile, acc]}]}
  - result: bf16(sums.acc)
  - {write: result, to: c}
"""
    stores = emit(loads(rounded), AMX).text.split("vector<32xbf16>\n")[1:]
    before = [len(re.findall("arith.cmpf uno", one)) for one in stores]
    assert max(before) <= 2, "no more than one row is in registers at a time"


def test_operands_that_are_not_staged_go_through_scratch_memory() -> None:
    module = text(AMX, "bf16", spaces=("global", "shared"))
    assert count(module, "llvm.x86.tileloadd64") == 4
    assert count(module, "memref.alloc") == 1 + 4, "one panel; sums, two operands, the configuration"


def test_only_products_in_tiles_configure_them() -> None:
    assert "llvm.x86.t" not in text(AMX, "f32")  # tiles


@pytest.mark.parametrize(("dtype", "branches"), [("i8", 3), ("bf16", 1)])
def test_elements_smaller_than_masks_have_are_masked_as_words(dtype: str, branches: int) -> None:
    """And of the last word, of which a part is there, each element that may be takes a branch."""
    rows = ROWS.replace("f32", dtype).replace("multiple_of: 16", "max: 64").replace(", space: streamed", "")
    words, plain = (emit(loads(rows), machine).text for machine in (AVX2, AVX512))
    assert AVX2.masked_bits == 32 and not AVX512.masked_bits
    for access in ("load", "store"):
        masked = count(words, f"llvm.intr.masked.{access}")
        assert masked and count(words, f"memref.{access}") == masked * branches
        assert not count(words, f"vector.masked{access}") and not count(plain, f"llvm.intr.masked.{access}")


def test_elements_that_masks_have_are_masked_as_they_are() -> None:
    rows = ROWS.replace("multiple_of: 16", "max: 64").replace(", space: streamed", "")
    assert not count(emit(loads(rows), AVX2).text, "llvm.intr.masked.load")


STAGED = """\
apiVersion: wavespec/v1
kind: Kernel
name: staged_beside_a_product
dims: {M: {}, N: {}, K: {}}
tensors:
  a: {shape: [M, K], dtype: bf16}
  b: {shape: [N, K], dtype: bf16}
  r: {shape: [M, N], dtype: bf16, space: shared}
  c: {shape: [M, N], dtype: f32, role: output}
constraints:
  - {workgroup: M, tile: 32, axis: 0}
  - {workgroup: N, tile: 64, axis: 1}
  - {tiling: K, tile: 64}
  - {wave: N, tile: 32}
graph:
  - zero: {register: [M, N], dtype: f32, value: 0}
  - k_loop:
      iterate: K
      carry: {acc: zero}
      body:
        - a_tile: {read: a}
        - b_tile: {read: b}
        - acc: {mma: [a_tile, b_tile, acc]}
  - r_tile: {read: r}
  - result: "k_loop.acc + f32(r_tile)"
  - {write: result, to: c}
"""


def test_what_is_staged_for_no_product_is_not_loaded_into_tile_registers() -> None:
    spec = loads(STAGED)
    assert not [op for op in lower(spec, AMX).walk() if op.name == "load_tile" and op["memory"] == "r.shared"]
    assert "func.func" in emit(spec, AMX).text
