"""Powers of two on CPUs whose instructions scale by them: as close as the polynomial, and right at every edge."""

from __future__ import annotations

import math

import pytest
import torch

from wavespec.pipeline import best_variant, build, emit
from wavespec.runtime.kernel import Kernel
from wavespec.schema import loads
from wavespec.targets.machine import machines

AMX, ZEN = (next(m for m in machines("cpu") if m.variant == f"x86_64_{name}") for name in ("amx", "v4_bf16"))
needs_amx = pytest.mark.skipif(
    best_variant("cpu").variant != AMX.variant, reason="this CPU has no AMX, beside which the instructions are used"
)
POWERS = """\
apiVersion: wavespec/v1
kind: Kernel
name: powers
dims: {N: {}}
tensors:
  x: {shape: [N], dtype: f32}
  y: {shape: [N], dtype: f32, role: output}
graph:
  - x_tile: {read: x}
  - power: "exp2(x_tile)"
  - {write: power, to: y}
"""


def test_two_instructions_take_the_place_of_the_bits_of_exponents() -> None:
    text = emit(loads(POWERS), AMX).text
    assert "avx512.mask.scalef.ps.512" in text and "avx512.mask.reduce.ps.512" in text
    assert "scalef" not in emit(loads(POWERS), ZEN).text


def test_powers_of_e_take_one_of_them() -> None:
    spec = loads(POWERS.replace("exp2(", "exp("))
    text = emit(spec, AMX).text
    assert "avx512.mask.scalef.ps.512" in text and "avx512.mask.reduce.ps.512" not in text
    assert "arith.shli" not in text and "arith.shli" in emit(spec, ZEN).text


@pytest.mark.compiles
@needs_amx
def test_powers_of_e_end_where_torchs_do() -> None:
    kernel = Kernel(build(loads(POWERS.replace("exp2(", "exp(")), "cpu", only=AMX))
    x = torch.cat([torch.linspace(-104, 89, 100_003), torch.linspace(-1, 1, 10_007)])
    exact = torch.exp(x.double())
    units = (kernel(x).double() - exact).abs() / torch.clamp(exact * 2.0**-23, min=2.0**-149)
    assert units[exact < torch.finfo(torch.float32).max].max() <= 1
    edges = torch.tensor([-math.inf, -3e38, -(2.0**24), -105.0, -0.0, 0.0, 89.0, 3e38, math.inf, math.nan])
    assert torch.equal(kernel(edges).nan_to_num(5), torch.exp(edges).nan_to_num(5))


@pytest.mark.compiles
@needs_amx
def test_powers_are_those_of_f64_rounded_at_most_one_unit_away() -> None:
    kernel = Kernel(build(loads(POWERS), "cpu", only=AMX))
    x = torch.cat([torch.linspace(-151, 129, 100_003), torch.linspace(-1, 1, 10_007)])
    exact = torch.exp2(x.double())
    units = (kernel(x).double() - exact).abs() / torch.clamp(exact.abs() * 2.0**-23, min=2.0**-149)
    inside = exact < torch.finfo(torch.float32).max
    assert units[inside].max() <= 1
    edges = torch.tensor([-math.inf, -3e38, -(2.0**24), -150.0, -0.0, 0.0, 3.0, 127.0, 128.0, 3e38, math.inf, math.nan])
    assert torch.equal(kernel(edges).nan_to_num(5), torch.exp2(edges).nan_to_num(5))
    assert torch.equal(kernel(torch.arange(-149.0, 128)), torch.exp2(torch.arange(-149.0, 128)))
