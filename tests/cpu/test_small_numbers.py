"""Numbers below the smallest normal one: operands and results keep them, on the caller's thread and on IREE's, which
take them for zero otherwise."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
import torch

from tests.cpu.test_rows import kernel
from tests.kernels import tensors_of
from tests.rungs import often
from wavespec.runtime.kernel import Kernel
from wavespec.schema import load, loads
from wavespec.targets.machine import machines

SPECS = Path(__file__).parents[2] / "specs"
TYPES = {"f32": torch.float32, "f64": torch.float64, "f16": torch.float16, "bf16": torch.bfloat16}
VARIANTS = [machine.variant for machine in machines("cpu")]

STEPS = """\
apiVersion: wavespec/v1
kind: Kernel
name: small_numbers
dims: {{M: {{}}}}
tensors:
  x: {{shape: [M], dtype: {dtype}}}
  scale: {{shape: [M], dtype: f8e8m0fnu}}
  double: {{shape: [M], dtype: {wide}, role: output}}
  halves: {{shape: [M], dtype: {wide}, role: output}}
  large: {{shape: [M], dtype: {wide}, role: output}}
  copied: {{shape: [M], dtype: {dtype}, role: output}}
  factor: {{shape: [M], dtype: f32, role: output}}
constraints:
  - {{workgroup: M, tile: 64, axis: 0}}
graph:
  - one: {{read: x}}
  - byte: {{read: scale}}
  - part: {wide}(one)
  - twice: part + part
  - halved: part * 0.5
  - many: part * 1048576
  - again: {dtype}(part)
  - power: f32(byte)
  - {{write: twice, to: double}}
  - {{write: halved, to: halves}}
  - {{write: many, to: large}}
  - {{write: again, to: copied}}
  - {{write: power, to: factor}}
"""
ROWS = """\
apiVersion: wavespec/v1
kind: Kernel
name: small_rows
dims: {M: {}, N: {}}
tensors:
  x: {shape: [M, N], dtype: f32}
  total: {shape: [M], dtype: f32, role: output}
  weight: {shape: [M, N], dtype: f32, role: output}
constraints:
  - {workgroup: M, tile: 4, axis: 0}
  - {wave: M, tile: 1}
  - {tiling: N, tile: 64}
graph:
  - none: {register: [M], dtype: f32, value: 0}
  - sums:
      iterate: N
      carry: {acc: none}
      body:
        - part: {read: x}
        - weights: exp(part)
        - {write: weights, to: weight}
        - acc: {sum: weights, dim: N, init: acc}
  - {write: sums.acc, to: total}
"""


@cache
def steps(dtype: str, variant: str) -> Kernel:
    text = STEPS.format(dtype=dtype, wide="f64" if dtype == "f64" else "f32")
    return kernel(loads(text, "small_numbers.wave.yaml"), variant)


@pytest.mark.parametrize("size", [64, 2048])
@pytest.mark.parametrize(
    ("dtype", "variant"), [*((dtype, "") for dtype in TYPES), *(("f32", variant) for variant in VARIANTS)]
)
def test_steps_and_conversions_keep_small_numbers(dtype: str, size: int, variant: str) -> None:
    least = torch.finfo(TYPES[dtype]).smallest_normal
    x = (torch.linspace(-2, 2, size, dtype=torch.float64) * least).to(TYPES[dtype])
    scale = torch.arange(size, dtype=torch.int32).remainder(255).to(torch.uint8).view(torch.float8_e8m0fnu)
    part = x if dtype == "f64" else x.float()
    expected = (part + part, part * 0.5, part * 1048576, x, scale.float())
    for found, right in zip(tensors_of(steps(dtype, variant)(x, scale)), expected, strict=True):
        assert torch.equal(found, right)


def test_wide_numbers_become_small_ones() -> None:
    text = STEPS.format(dtype="f64", wide="f16").replace("1048576", "1024")
    x, scale = torch.linspace(-2, 2, 64, dtype=torch.float64) * 2.0**-14, torch.ones(64).to(torch.float8_e8m0fnu)
    double = tensors_of(kernel(loads(text, "small_numbers.wave.yaml"))(x, scale))[0]
    assert torch.equal(double, 2 * x.half())


def test_what_a_kernel_keeps_is_not_left_to_its_caller() -> None:
    """The state of the thread that called is as it was."""
    x = torch.full((64,), 1e-40)
    scale = torch.zeros(64, dtype=torch.uint8).view(torch.float8_e8m0fnu)
    torch.set_flush_denormal(True)
    try:
        doubled = steps("f32", "")(x, scale)
        assert torch.count_nonzero(x + x) == 0
    finally:
        torch.set_flush_denormal(False)
    assert torch.count_nonzero(tensors_of(doubled)[0]) == 64


def test_powers_of_e_fall_to_zero_by_way_of_small_numbers() -> None:
    x = torch.tensor([-80.0, -87.0, -88.0, -95.0, -103.0, -104.5, -110.0, -150.0, -176.0, -1000.0, -torch.inf, 0.0])
    total, weight = tensors_of(kernel(loads(ROWS, "small_rows.wave.yaml"))(x.expand(9, -1).contiguous()))
    exact = x.double().exp()
    assert (weight.double() - exact).abs().le(exact * 2**-22 + 2.0**-149).all()
    assert torch.equal(weight[0, -6:], torch.tensor([0.0, 0.0, 0.0, 0.0, 0.0, 1.0]))
    assert torch.equal(total, torch.ones(9))


@pytest.mark.parametrize("variant", often(VARIANTS, VARIANTS[-1:]))
def test_products_of_f32_keep_small_numbers(variant: str) -> None:
    gemm = kernel(load(SPECS / "gemm_f32.wave.yaml"), variant)
    a, b = torch.eye(32) * 2.0**100, torch.randn(32, 32) * 2.0**-130
    assert torch.equal(tensors_of(gemm(a, b))[0], b.T * 2.0**100)


@pytest.mark.parametrize("variant", often(VARIANTS, VARIANTS[-1:]))
def test_a_scale_of_byte_0_is_a_power_of_two(variant: str) -> None:
    """Of operands of products bf16's normal numbers count, which at this scale are those of 2 and more."""
    gemm, random = kernel(load(SPECS / "matmul_mxf8.wave.yaml"), variant), torch.Generator().manual_seed(0)
    a, b = (torch.randint(0, 2, (32, 128), generator=random).add(2).to(torch.float8_e4m3fn) for _ in range(2))
    least, most = (torch.full((32, 4), byte, dtype=torch.uint8).view(torch.float8_e8m0fnu) for byte in (0, 250))
    exact = a.double() @ b.double().T * 2.0 ** (250 - 127 - 127)
    assert torch.equal(tensors_of(gemm(a, b, least, most))[0], exact.bfloat16())
