"""MLIR for aarch64: its own modes of floating point, products and target, and nothing of another architecture."""

from __future__ import annotations

import pytest

from tests.lower.gemms import Gemm
from wavespec.ir.tile_ops import MMA
from wavespec.pipeline import emit, lower
from wavespec.targets.machine import variants

MACHINES = {machine.variant: machine for machine in variants("cpu") if machine.architecture == "aarch64"}


def text(variant: str, dtype: str) -> str:
    return emit(Gemm(dtype=dtype, tile=(96, 64, 64), wave=(None, None)).spec, MACHINES[variant]).text


@pytest.mark.parametrize("variant", MACHINES)
def test_a_module_is_for_its_architecture(variant: str) -> None:
    module = text(variant, "f32")
    assert "x86" not in module
    assert '"embedded-elf-arm_64"' in module and 'target_triple = "aarch64-unknown-unknown-eabi-elf"' in module
    assert f'cpu_features = "{MACHINES[variant].compiler["cpu_features"]}"' in module
    assert module.count('"llvm.aarch64.get.fpcr"') == 1
    assert module.count('"llvm.aarch64.set.fpcr"') == 2


@pytest.mark.parametrize(
    ("variant", "dtype", "words", "count"),
    [
        ("aarch64_v8", "f32", "math.fma", 6 * 16 // 4),
        ("aarch64_v8", "bf16", "math.fma", 6 * 16 // 4),
        ("aarch64_v8", "i8", "arith.muli %", 6 * 16 // 4),
        ("aarch64_v8_2", "i8", "llvm.aarch64.neon.sdot.v4i32.v16i8", 6 * 16 // 4),
        ("aarch64_v8_6", "i8", "llvm.aarch64.neon.smmla.v4i32.v16i8", 6 // 2 * 16 // 2),
        ("aarch64_v8_6", "bf16", "llvm.aarch64.neon.bfmmla", 6 // 2 * 16 // 2),
    ],
)
def test_a_step_is_one_product_per_register_of_the_tile(variant: str, dtype: str, words: str, count: int) -> None:
    """In the loop behind that of the steps that announce results."""
    module = text(variant, dtype)
    lines = [line for line in module[module.rindex("scf.for") :].splitlines() if words in line and "vector<4x" in line]
    assert len(lines) == count


def test_rows_of_blocks_are_put_side_by_side_behind_the_loop() -> None:
    """Of two blocks of 2 x 2 sums: four sums of one row, and four of the next."""
    _, _, behind = text("aarch64_v8_6", "i8").rpartition("smmla")
    assert behind.count(" [0, 1, 4, 5] :") == behind.count(" [2, 3, 6, 7] :") == 6 // 2 * 16 // 4


@pytest.mark.parametrize(
    ("tile", "row"),
    [
        ((96, 64, 64), "mmla_i8_6x16x8"),
        ((64, 64, 64), "mmla_i8_4x16x8"),
        ((64, 64, 20), "dot4_i8_4x16x4"),
        ((64, 24, 64), "inner_i8_2x6x16"),
    ],
)
def test_the_widest_product_that_fits_the_tile_is_taken(tile: tuple[int, int, int], row: str) -> None:
    """Where few elements of a row are used, nothing is packed."""
    gemm = Gemm(dtype="i8", tile=tile, wave=(None, None))
    chosen = lower(gemm.spec, MACHINES["aarch64_v8_6"], after="choose-instructions")
    assert {op["instruction"] for op in chosen.walk() if op.is_(MMA)} == {row}
