"""MLIR for aarch64: its own modes of floating point, products and target, and nothing of another architecture."""

from __future__ import annotations

import pytest

from tests.lower.gemms import Gemm
from wavespec.pipeline import emit
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
        ("aarch64_v8", "f32", "math.fma", 4 * 16 // 4),
        ("aarch64_v8", "bf16", "math.fma", 4 * 16 // 4),
        ("aarch64_v8", "i8", "arith.muli %", 4 * 16 // 4),
        ("aarch64_v8_2", "i8", "llvm.aarch64.neon.sdot.v4i32.v16i8", 4 * 16 // 4),
        ("aarch64_v8_6", "bf16", "llvm.aarch64.neon.bfdot.v4f32.v8bf16", 4 * 16 // 4),
    ],
)
def test_a_step_is_one_product_per_register_of_the_tile(variant: str, dtype: str, words: str, count: int) -> None:
    lines = [line for line in text(variant, dtype).splitlines() if words in line and "vector<4x" in line]
    assert len(lines) == count
