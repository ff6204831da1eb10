"""Every mma gets a row of its machine, or a diagnostic at the line that asked for another."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from tests.lower.gemms import AMD, CPU, NVIDIA, Gemm, lines
from tests.lower.hopper_gemms import TOGETHER, hopper_gemm
from wavespec.diagnostics import WavespecError
from wavespec.pipeline import lower
from wavespec.schema import loads
from wavespec.schema.builder import KernelBuilder
from wavespec.schema.reading.spec_to_yaml import dump_yaml
from wavespec.schema.symbols import Value
from wavespec.sim.simt import simulate
from wavespec.targets.machine import Machine

STAGE = "choose-instructions"


@pytest.mark.parametrize(
    ("machine", "dtype", "name"),
    [
        (NVIDIA, "f16", "mma_m16n8k16_f16"),
        (NVIDIA, "bf16", "mma_m16n8k16_bf16"),
        (NVIDIA, "i8", "mma_m16n8k32_i8"),
        (NVIDIA, "f32", "fma_f32_32x64x4"),
        (AMD, "f16", "f32_16x16x16_f16:swapped"),
        (AMD, "i8", "i32_16x16x32_i8:swapped"),
        (AMD, "f32", "f32_16x16x4_f32:swapped"),
        (CPU, "f16", "fma_f32_12x32x1"),
    ],
)
def test_auto_takes_the_first_row_for_the_types(machine: Machine, dtype: str, name: str) -> None:
    (mma,) = lines(Gemm(dtype, (192, 64, 32), (None, None)).lowered(machine, STAGE), "mma")
    assert f'{{instruction = "{name}", k = "K", m = "M", n = "N"}}' in mma


@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16", "i8"])
@pytest.mark.parametrize(("tile", "swapped"), [((1, 24, 128), ":swapped"), ((24, 1, 128), "")])
def test_one_row_or_column_meets_eight_of_the_others(dtype: str, tile: tuple[int, int, int], swapped: str) -> None:
    (mma,) = lines(Gemm(dtype, tile, (None, None)).lowered(CPU, STAGE), "mma")
    assert re.search(rf'"inner_\w+_8x1x\d+{swapped}"', mma)


@pytest.mark.parametrize(
    ("orders", "tile", "name"),
    [
        (("M, K", "N, K", "M, N"), (1, 64, 32), "inner_bf16_8x1x32:swapped"),
        (("M, K", "K, N", "M, N"), (1, 64, 32), "fma_f32_1x64x1"),
        (("M, K", "K, N", "M, N"), (1, 256, 32), "fma_f32_1x128x1"),
        (("K, M", "N, K", "M, N"), (64, 1, 32), "fma_f32_1x64x1:swapped"),
    ],
)
def test_one_row_meets_vectors_of_what_lies_side_by_side(
    orders: tuple[str, str, str], tile: tuple[int, int, int], name: str
) -> None:
    (mma,) = lines(Gemm("bf16", tile, (None, None), orders=orders).lowered(CPU, STAGE), "mma")
    assert f'"{name}"' in mma


def test_what_takes_one_column_is_not_for_tiles_of_several() -> None:
    """It would read the rows once for each column."""
    (mma,) = lines(Gemm("f32", (40, 96, 32), (None, None)).lowered(CPU, STAGE), "mma")
    assert '"fma_f32_8x32x1"' in mma
    with pytest.raises(WavespecError):
        Gemm("f32", (40, 5, 128), (None, None)).lowered(CPU)


def test_product_is_turned_only_for_wider_stores() -> None:
    (mma,) = lines(Gemm(orders=("M, K", "N, K", "N, M")).lowered(AMD, STAGE), "mma")
    assert '{instruction = "f32_16x16x16_f16", ' in mma


def test_dims_are_found_by_name_in_any_order() -> None:
    (mma,) = lines(Gemm(orders=("K, M", "K, N", "M, N")).lowered(NVIDIA, STAGE), "mma")
    assert 'k = "K", m = "M", n = "N"' in mma


def test_named_row_is_taken() -> None:
    (mma,) = lines(Gemm(mma="f32_32x32x8_f16").lowered(AMD, STAGE), "mma")
    assert '"f32_32x32x8_f16:swapped"' in mma


@pytest.mark.parametrize(
    ("tile", "wave", "name"),
    [
        ((128, 144, 32), (64, 144), "wgmma_m64n144k8_tf32"),
        ((96, 128, 32), (96, 64), "wgmma_m64n96k8_tf32:swapped"),
        ((16, 64, 64), (16, 64), "wgmma_m64n16k8_tf32:swapped"),
    ],
)
def test_the_row_of_a_family_that_fits_the_tiles_is_taken(
    tile: tuple[int, int, int], wave: tuple[int, int], name: str
) -> None:
    gemm = replace(hopper_gemm(dtype="f32", tile=tile, wave=wave, schedule=TOGETHER), mma="wgmma_tf32")
    (mma,) = lines(gemm.lowered(NVIDIA, STAGE), "mma")
    assert f'"{name}"' in mma


def test_unknown_row_is_reported_with_all_rows() -> None:
    with pytest.raises(WavespecError) as caught:
        Gemm(mma="f32_16x16x16_f16").lowered(NVIDIA)
    assert (
        str(caught.value)
        == """\
gemm.wave.yaml:22:22: error[unknown-matrix-instruction]: sm_90 has no matrix instruction 'f32_16x16x16_f16'.
    |
 22 |   - {hardware: {mma: f32_16x16x16_f16}}
    |                      ^^^^^^^^^^^^^^^^
    = note: For sm_90.
    = hint: It has 'mma_m16n8k16_f16', 'mma_m16n8k16_bf16', 'mma_m16n8k32_i8', 'mma_m16n8k32_u8', 'lanes', 'fma_f32_32x64x4', 'fma_sums_f32_16x32x4', 'fma_f64_16x32x2', 'fma_f32_32x64x1', 'mma3_m16n8k8_f32', 'wgmma_m64n{n}k16_{dtype}', 'wgmma_m64n{n}k32_f8e4m3fn', 'wgmma_m64n{n}k32_f8e5m2', 'wgmma_m64n{n}k32_i8', 'wgmma_m64n{n}k32_u8', 'wgmma_tf32', 'wgmma3_m64n{n}k8_f32', or write 'auto'."""
    )


def test_row_for_other_types_is_reported_with_those_that_fit() -> None:
    with pytest.raises(WavespecError) as caught:
        Gemm("i8", mma="f32_16x16x16_f16").lowered(AMD)
    assert (
        str(caught.value)
        == """\
gemm.wave.yaml:22:22: error[no-matrix-instruction]: 'f32_16x16x16_f16' does not multiply i8 inputs into i32.
    |
 22 |   - {hardware: {mma: f32_16x16x16_f16}}
    |                      ^^^^^^^^^^^^^^^^
    = note: For gfx942.
    = hint: For these types it has i32_16x16x32_i8, i32_32x32x16_i8."""
    )


def test_types_that_no_row_multiplies_are_reported() -> None:
    text = Gemm("i8").text.replace("dtype: i8", "dtype: u8")
    with pytest.raises(WavespecError) as caught:
        lower(loads(text, "gemm.wave.yaml"), AMD)
    assert (
        str(caught.value)
        == """\
gemm.wave.yaml:22:22: error[no-matrix-instruction]: gfx942 has no matrix instruction for u8 inputs into i32.
    |
 22 |   - {hardware: {mma: auto}}
    |                      ^^^^
    = note: For gfx942.
    = hint: Change the element types: nothing in gfx942 multiplies u8 into i32."""
    )


def test_batch_without_a_tile_is_refused_not_a_crash() -> None:
    text = (
        Gemm().text.replace("  K: {}", "  K: {}\n  B: {}").replace("[M, K]", "[B, M, K]").replace("[N, K]", "[B, N, K]")
    )
    text = text.replace("[M, N]", "[B, M, N]")
    with pytest.raises(WavespecError) as caught:
        lower(loads(text, "batch.wave.yaml"), NVIDIA)
    assert (
        str(caught.value)
        == """\
batch.wave.yaml:32:16: error[not-matrices]: A matrix instruction multiplies [m, k] by [n, k] into [m, n]; here [B, M, K] by [B, N, K] into [B, M, N].
    |
 32 |         - acc: {mma: [a_tile, b_tile, acc]}
    |                ^^^^^^^^^^^^^^^^^^^^^^^^^^^^
    = note: For sm_90.
    = hint: Give both operands two dims, and others that they have a tile: {workgroup: ..., tile: 1, axis: ...}."""
    )


def test_auto_takes_the_best_instruction_that_fits_the_tiles() -> None:
    chosen = [
        lines(Gemm("f32", (m, 64, 32), (None, None)).lowered(CPU, "choose-instructions"), "mma")[0].split('"')[1]
        for m in (24, 32)
    ]
    assert [name.split("_")[-1].split("x")[0] for name in chosen] in (["12", "8"], ["6", "4"])


TWO_PRODUCTS = """apiVersion: wavespec/v1
kind: Kernel
name: two
dims: {M: {}, N: {}, K: {}}
tensors:
  a: {shape: [M, K], dtype: f16}
  b: {shape: [N, K], dtype: f16}
  c: {shape: [M, N], dtype: f32, role: output}
  d: {shape: [M, N], dtype: f32, role: output}
constraints:
  - {workgroup: M, tile: 64, axis: 0}
  - {workgroup: N, tile: 64, axis: 1}
  - {tiling: K, tile: 32}
  - {wave: M, tile: 32}
  - {wave: N, tile: 32}
graph:
  - zero: {register: [M, N], dtype: f32, value: 0}
  - one: {register: [M, N], dtype: f32, value: 1}
  - sums:
      iterate: K
      carry: {first: zero, second: one}
      body:
        - a_one: {read: a}
        - b_one: {read: b}
        - first: {mma: [a_one, b_one, first], variant: VARIANT}
        - a_two: {read: a}
        - b_two: {read: b}
        - second: {mma: [a_two, b_two, second]}
  - {write: sums.first, to: c}
  - {write: sums.second, to: d}
"""


def test_each_product_may_have_its_own_row() -> None:
    spec = loads(TWO_PRODUCTS.replace("VARIANT", "f32_32x32x8_f16"))
    products = [op["instruction"] for op in lower(spec, AMD, after=STAGE).walk() if op.name == "mma"]
    assert products == ["f32_32x32x8_f16:swapped", "f32_16x16x16_f16:swapped"]
    a, b = (np.random.default_rng(rows).integers(-9, 10, (rows, 50)).astype(np.float16) for rows in (70, 90))
    report = simulate(lower(spec, AMD), AMD, {"a": a, "b": b}, {"M": 70, "N": 90, "K": 50})
    assert report.ok, report.render()
    expected = a.astype(np.float64) @ b.astype(np.float64).T
    np.testing.assert_array_equal(report.tensors["c"], expected)
    np.testing.assert_array_equal(report.tensors["d"], expected + 1)


def test_a_wave_tile_fits_the_rows_of_all_products() -> None:
    spec = loads(
        TWO_PRODUCTS.replace("VARIANT", "f32_32x32x8_f16").replace("tile: 32}\n  - {wave: N", "tile: 16}\n  - {wave: N")
    )
    with pytest.raises(WavespecError) as caught:
        lower(spec, AMD)
    assert caught.value.diagnostics[0].message == (
        "The wave tile of M of 16 elements is not a multiple of the matrix instruction's extent, 32."
    )


def test_an_unknown_row_of_one_product_is_reported_at_the_product() -> None:
    with pytest.raises(WavespecError) as caught:
        lower(loads(TWO_PRODUCTS.replace("VARIANT", "f32_1x1x1_f16")), AMD)
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.span is not None
    assert (diagnostic.code, diagnostic.span.line) == ("unknown-matrix-instruction", 25)


def test_python_names_the_row_of_a_product() -> None:
    text = dump_yaml(loads(TWO_PRODUCTS.replace("VARIANT", "f32_32x32x8_f16")))
    assert "first: {mma: [a_one, b_one, first], variant: f32_32x32x8_f16}" in text
    kernel = KernelBuilder("k")
    value = Value("x")
    kernel.mma("y", value, value, value, variant="f32_32x32x8_f16")
    assert kernel._bodies[-1][-1]["variant"] == "f32_32x32x8_f16"  # pyright: ignore[reportPrivateUsage]
